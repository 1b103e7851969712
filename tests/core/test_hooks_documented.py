"""Documentation is tested: every hook has a section with its arguments, and a test that runs it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from prompt_coevo import hookspecs
from prompt_coevo.settings import Section, Settings

ROOT = Path(__file__).parents[2]
HOOKS = {name: function for name, function in vars(hookspecs).items() if name.startswith("coevo_")}
SECTIONS = dict(
    re.findall(r"^### `(coevo_\w+)\((.*?)\)`$", (ROOT / "docs/hooks.md").read_text("utf-8"), re.M)
)


def test_the_documentation_names_exactly_the_hooks_that_exist() -> None:
    assert set(SECTIONS) == set(HOOKS)


@pytest.mark.parametrize("name", HOOKS)
def test_a_hooks_section_has_its_arguments(name: str) -> None:
    arguments = ", ".join(inspect.signature(HOOKS[name]).parameters)
    assert SECTIONS[name] == arguments


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_has_a_docstring_and_a_test_that_runs_it(name: str) -> None:
    assert HOOKS[name].__doc__
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert f"def {name}(" in tests, f"no test implements {name}"


def documented_settings(model: type, prefix: str = "") -> dict[str, str]:
    found = {}
    for name, field in model.model_fields.items():  # type: ignore[attr-defined]
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            found |= documented_settings(kind, f"{prefix}{name}.")
        else:
            found[prefix + name] = field.description or ""
    return found


def test_every_setting_is_documented() -> None:
    text = (ROOT / "docs/settings.md").read_text("utf-8")
    settings = documented_settings(Settings)
    assert set(re.findall(r"^\| `([\w.]+)` \|", text, re.M)) == set(settings)
    for name, description in settings.items():
        assert description, f"{name} has no description"
