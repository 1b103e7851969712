"""Check that every setting is read by some code; an unread one would silently do nothing."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from pydantic import BaseModel

from prompt_coevo.algorithms.stream.settings import StreamSettings
from prompt_coevo.settings import Settings
from prompt_coevo.settings.section import Section, fields_of
from prompt_coevo.settings.success import SuccessSettings

ROOT = Path(__file__).parents[3]
FOLDERS: Final = ("prompt_coevo", "adapters", "retrieval")
SHOWN_ONLY: Final = ("demo", "smoke", "testing", "cli", "report")
"""Packages whose reads have no effect on a run."""
IN_SHORT: Final = {"settings", ".settings", "._settings", "section", ".section"}
"""Names of a section in a module that names its class."""
BY_NAME: Final = {
    "config_file": "prompt_coevo/settings/sources.py",
    "preset": "prompt_coevo/settings/sources.py",
    "reflection.max_calls": "prompt_coevo/reflection/spending.py",
    "reflection.max_total_tokens": "prompt_coevo/reflection/spending.py",
}
"""Settings that are read by their names as texts, and where."""


@dataclass(frozen=True)
class Module:
    """Hold the names that a module uses and the attributes it reads, each with the receiver's last word."""

    names: frozenset[str]
    reads: frozenset[tuple[str, str]]
    texts: frozenset[object]


@cache
def modules() -> Mapping[str, Module]:
    """Return the modules that a run executes, by path."""
    found = {}
    for file in (file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")):
        path = file.relative_to(ROOT)
        if path.parts[1] not in SHOWN_ONLY:
            nodes = list(ast.walk(ast.parse(file.read_text("utf-8"))))
            names = frozenset(one.id for one in nodes if isinstance(one, ast.Name))
            texts = frozenset(one.value for one in nodes if isinstance(one, ast.Constant))
            found[str(path)] = Module(names, frozenset(reads_in(nodes)), texts)
    return found


def reads_in(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    for one in nodes:
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Load):
            yield last_word(one.value), one.attr


def last_word(receiver: ast.expr) -> str:
    """Return `.settings` of `context.settings`, `.section` of `settings.section(StreamSettings)`."""
    if isinstance(receiver, ast.Call):
        return last_word(receiver.func)
    if isinstance(receiver, ast.Attribute):
        return f".{receiver.attr}"
    return receiver.id if isinstance(receiver, ast.Name) else ""


def is_read(name: str, place: str, section: type[BaseModel]) -> bool:
    """Tell whether the code of a run reads `name` of a section, itself or through what is made of it."""
    family = [one for one in section.__mro__ if issubclass(one, Section) and one is not Section]
    files = {f"{one.__module__.replace('.', '/')}.py" for one in family}
    classes = {one.__name__ for one in family}
    own = {place, f".{place}", f"._{place}"} if place else {".settings"}
    for path, module in modules().items():
        called = own | IN_SHORT if classes & module.names else own
        if path not in files and any((receiver, name) in module.reads for receiver in called):
            return True
    return any(is_read(one, place, section) for kind in family for one in made_of(name, kind))


def made_of(name: str, section: type[BaseModel]) -> Iterator[str]:
    """Yield the methods and properties of a section that read `name`, except validators."""
    [made] = ast.parse(inspect.getsource(section)).body
    assert isinstance(made, ast.ClassDef)
    for one in made.body:
        if isinstance(one, ast.FunctionDef) and not one.name.startswith(("problems", "_")):
            all_of_it = "**self.model_dump()" in ast.unparse(one)
            if all_of_it or ("self", name) in reads_in(ast.walk(one)):
                yield one.name


def section_at(place: str) -> type[BaseModel]:
    section: type[BaseModel] = Settings
    for name in filter(None, place.split(".")):
        kind = section.model_fields[name].annotation
        assert isinstance(kind, type)
        section = kind
    return section


@pytest.mark.parametrize("setting", [name for name, _ in fields_of(Settings)])
def test_every_setting_is_read_outside_its_section(setting: str) -> None:
    if file := BY_NAME.get(setting):
        assert setting.rpartition(".")[2] in modules()[file].texts
        return
    place, _, name = setting.rpartition(".")
    assert is_read(name, place, section_at(place)), f"{setting} is read nowhere"


class _Planted(StreamSettings):
    unread: int = 1
    """No code reads it."""
    judged: int = 1
    """Only an error sentence reads it."""
    made: int = 1
    """Only an unread property uses it."""
    minibatch_size: int = 1
    """Read from another method's section."""

    def problems(self) -> Iterator[str]:
        if self.judged < 0:
            yield "stream.judged must not be below 0"

    @property
    def made_of_it(self) -> int:
        return self.made


@pytest.mark.parametrize("name", ["unread", "judged", "made", "minibatch_size"])
def test_a_setting_that_nothing_reads_is_found(name: str) -> None:
    assert not is_read(name, "stream", _Planted)


def test_what_a_section_inherits_or_makes_of_its_settings_is_read() -> None:
    assert is_read("tau", "stream", _Planted)
    assert is_read("calls_per_hard", "stream", _Planted)
    assert not is_read("lower", "success", SuccessSettings)
