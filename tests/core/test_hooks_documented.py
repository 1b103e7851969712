"""Check that every hook has a documentation section with its arguments, and a test that runs it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from prompt_coevo import hookspecs
from prompt_coevo.cli import app

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
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py"))
    assert f"def {name}(" in tests, f"no test implements {name}"


def test_every_setting_is_documented() -> None:
    """The table in the documentation is the output of `prompt-coevo settings --table`."""
    table = CliRunner().invoke(app, ["settings", "--table"]).stdout
    assert table in (ROOT / "docs/settings.md").read_text("utf-8")
    for line in table.splitlines():
        assert not line.endswith("|  |"), f"a setting without a description: {line}"


def test_links_between_documents_lead_somewhere() -> None:
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path}: {target}"
