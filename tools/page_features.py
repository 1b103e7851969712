"""Make the page of features run per adapter, and by which test, from tests/features.toml.

No test is imported: their existence and marks are read from syntax trees, so that no framework needs to be
installed.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from prompt_coevo.testing.adapter import LAWS

ROOT: Final = Path(__file__).resolve().parent.parent
REGISTRY: Final = ROOT / "tests" / "features.toml"
TITLES: Final[Mapping[str, str]] = {"trl": "TRL", "verl": "VeRL", "openrlhf": "OpenRLHF"}
KINDS: Final[Mapping[str, str]] = {
    "real": "real",
    "standin": "stand-in: {of}",
    "long": "long",
    "vllm": "real vLLM",
    "refused": "refused",
    "gpu": "not on a CPU",
    "open": "not tested",
}
"""By the key of a line: what its cell shows."""
_BY_REASON: Final = ("gpu", "open")
_FIELDS: Final = {kind: set() for kind in ("real", "long", "vllm", "gpu", "open")} | {
    "standin": {"of"},
    "refused": {"says"},
}
_TELLING: Final = 10
"""A text of a test this long or longer says which sentence it is about."""
_PAGE: Final = """\
# What was run

<!-- Made by tools/pages.py from tests/features.toml. -->

Each cell names a test, which is below; a test of the core holds that it is there.

- **real**: the framework's own trainer ran with it, on a CPU. With VeRL and OpenRLHF the device is a
  [stand-in](testing.md#the-real-vllm) in every run, and what samples too, unless it says real vLLM.
- **stand-in**: what the feature is about was stood in for.
- **long**: as real, in a test that the test command leaves out because of its time (`-- -m long`).
- **real vLLM**: as real, with vLLM itself in its build for CPUs, in
  [a session of its own](testing.md#the-real-vllm).
- **refused**: with the sentence below.
- **not on a CPU**, **not tested**: for the reason below. [`prompt-coevo smoke`](gpu-smoke.md) is there
  to run some of it on a GPU.

Nothing is said where the framework has no such thing, or nobody has looked.

{table}
{adapters}"""


@dataclass(frozen=True)
class Cell:
    """One feature of one adapter."""

    adapter: str
    feature: str
    kind: str
    value: str
    """The test, or for the last two kinds the reason."""

    of: str = ""
    says: str = ""
    note: str = ""

    @property
    def shown(self) -> str:
        return KINDS[self.kind].format(of=self.of)

    @property
    def test(self) -> str | None:
        return None if self.kind in _BY_REASON else self.value


def features_page() -> str:
    found = list(cells(tomllib.loads(REGISTRY.read_text("utf-8"))))
    return _PAGE.format(
        table="\n".join(_table(found)),
        adapters="".join(_adapter(adapter, found) for adapter in TITLES),
    )


def cells(registry: Mapping[str, Any]) -> Iterator[Cell]:
    """Yield all lines. Raises ValueError that names an invalid one."""
    for adapter, lines in registry.items():
        if adapter not in TITLES:
            raise ValueError(f"[{adapter}]: there is no such adapter")
        for feature, line in lines.items():
            kinds = line.keys() & KINDS.keys()
            if len(kinds) != 1:
                raise ValueError(f"[{adapter}] {feature}: write exactly one of {', '.join(KINDS)}")
            (kind,) = kinds
            others = {name: text for name, text in line.items() if name != kind}
            if others.keys() - {"note"} != _FIELDS[kind]:
                wanted = ", ".join(sorted(_FIELDS[kind])) or "nothing but a note"
                raise ValueError(f"[{adapter}] {feature}: beside {kind} belongs {wanted}")
            yield Cell(adapter, feature, kind, line[kind], **others)


def problem(cell: Cell) -> str | None:
    """Return the problem of a cell's test or sentence, or None."""
    if cell.test is None:
        return None
    path, _, name = cell.test.partition("::")
    name, _, parameter = name.partition("[")
    file = ROOT / path
    if not file.is_file():
        return f"there is no file {path}"
    marks = _tests(file).get(name)
    if marks is None:
        return f"{path} has no test {name}"
    if parameter and parameter.removesuffix("]") not in _parameters(file):
        return f"{path} has no parameter {parameter.removesuffix(']')}"
    # A law has its own marks, by its name.
    long = "long" in marks or parameter.removesuffix("]") in _long_laws(file.parent)
    if long != (cell.kind == "long") and cell.kind not in ("refused", "standin", "vllm"):
        return f"{cell.test} is {'' if long else 'not '}marked as long"
    if cell.kind == "refused":
        sentences = [text for text in _sentences(cell.adapter) if cell.says in text]
        if not sentences:
            return f"no sentence of the adapter has {cell.says!r}"
        asked = [text for text in _texts(file) if len(text) >= _TELLING]
        if not any(cell.says in text or text in one for text in asked for one in sentences):
            return f"{path} does not ask for the sentence with {cell.says!r}"
    return None


@cache
def _tests(file: Path) -> Mapping[str, frozenset[str]]:
    """Return the names of a file's tests, each with its marks."""
    found: dict[str, frozenset[str]] = {}
    everywhere: frozenset[str] = frozenset()
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found[node.name] = _marks(*node.decorator_list)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name == "pytestmark":
                everywhere = _marks(node.value)
            elif name.startswith("test_"):
                found[name] = frozenset()
    return {name: marks | everywhere for name, marks in found.items()}


def _marks(*nodes: ast.expr) -> frozenset[str]:
    return frozenset(
        part.attr for node in nodes for part in ast.walk(node) if isinstance(part, ast.Attribute)
    )


@cache
def _parameters(file: Path) -> frozenset[str]:
    """Return all possible parameter names: texts in the file, and the names of the laws."""
    return frozenset(_texts(file)) | frozenset(LAWS)


@cache
def _long_laws(folder: Path) -> frozenset[str]:
    """Return what a conftest beside the laws calls LONG."""
    file = folder / "conftest.py"
    if not file.is_file():
        return frozenset()
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LONG":
            return frozenset(ast.literal_eval(node.value))
    return frozenset()


@cache
def _sentences(adapter: str) -> frozenset[str]:
    """Return all texts in the sources of an adapter and of the code that adapters share."""
    folders = (ROOT / "adapters" / adapter, ROOT / "adapters" / "common")
    return frozenset(text for one in folders for file in one.glob("*.py") for text in _texts(file))


def _texts(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _table(found: list[Cell]) -> Iterator[str]:
    at = {(cell.adapter, cell.feature): cell for cell in found}
    yield f"| | {' | '.join(TITLES.values())} |"
    yield f"|---{'|---' * len(TITLES)}|"
    for feature in in_order(found):
        shown = [
            at[adapter, feature].shown if (adapter, feature) in at else "" for adapter in TITLES
        ]
        yield f"| {feature} | {' | '.join(shown)} |"


def in_order(found: list[Cell]) -> list[str]:
    """Return each feature once. One that earlier adapters lack follows its neighbour."""
    order: list[str] = []
    for adapter in TITLES:
        place = 0
        for cell in (cell for cell in found if cell.adapter == adapter):
            if cell.feature not in order:
                order.insert(place, cell.feature)
            place = order.index(cell.feature) + 1
    return order


def _adapter(adapter: str, found: list[Cell]) -> str:
    lines = [f"\n## {TITLES[adapter]}\n\n"]
    for cell in (cell for cell in found if cell.adapter == adapter):
        note = f" ({cell.note})" if cell.note else ""
        lines.append(f"- {cell.feature}{note}: {cell.shown}{_why(cell)}\n")
    return "".join(lines)


def _why(cell: Cell) -> str:
    if cell.test is None:
        return f"; {cell.value}"
    path, _, name = cell.test.partition("::")
    says = f" (“{cell.says.strip()}”)" if cell.says else ""
    return f"{says}, [`{name}`](../{path})"
