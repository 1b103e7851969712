"""Check how the site's hook rewrites links, and what the check of the built site refuses."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from helpers.documented import ROOT


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Import the hook's functions; a stub replaces mkdocs, which is not installed here."""
    for name in ("mkdocs", "mkdocs.structure", "mkdocs.structure.files"):
        module = ModuleType(name)
        module.File = module.Files = object  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
    return runpy.run_path(str(ROOT / "docs" / "site" / "hooks.py"))


def page(name: str) -> Any:
    return SimpleNamespace(file=SimpleNamespace(src_uri=name))


@pytest.mark.parametrize(
    ("here", "text", "there"),
    [
        ("trl.md", "[a](verl.md#x)", "[a](verl.md#x)"),
        ("trl.md", "[a](../CONTRIBUTING.md)", "[a](contributing.md)"),
        ("plugins/README.md", "[a](../hooks.md)", "[a](../hooks.md)"),
        ("plugins/README.md", "[a](../../README.md)", "[a](../readme.md)"),
        ("readme.md", "[a](docs/trl.md#x)", "[a](trl.md#x)"),
        ("verl.md", "[stand-ins](../tests/standins/verl)", "stand-ins (`tests/standins/verl`)"),
        ("trl.md", "[a](https://example.org/x)", "[a](https://example.org/x)"),
        ("trl.md", "![a](loops/p2o.svg)", "![a](loops/p2o.svg)"),
        ("readme.md", "![a](docs/results/effect.svg)", "![a](results/effect.svg)"),
    ],
)
def test_links_lead_to_the_same_place(
    hooks: dict[str, Any], here: str, text: str, there: str
) -> None:
    config = SimpleNamespace(repo_url=None)
    assert hooks["on_page_markdown"](text, page=page(here), config=config) == there


def test_a_known_repository_is_linked(hooks: dict[str, Any]) -> None:
    config = SimpleNamespace(repo_url="https://example.org/us/")
    made = hooks["on_page_markdown"](
        "[a](../tests/standins/verl) [b](../noxfile.py)", page=page("verl.md"), config=config
    )
    assert made == (
        "[a](https://example.org/us/tree/main/tests/standins/verl) "
        "[b](https://example.org/us/blob/main/noxfile.py)"
    )


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        (
            '<script src="https://cdn.example.org/x.js"></script>',
            "loads https://cdn.example.org/x.js",
        ),
        ('<link href="//fonts.example.org/x.css">', "loads //fonts.example.org/x.css"),
        ('<img src="gone.png">', "leads to gone.png, which is not there"),
        ('<a href="gone.html#x">', "leads to gone.html#x, which is not there"),
        ('<a href="https://example.org">', None),
        ('<a href="page.html"><a href="#x"><a href="mailto:x">', None),
    ],
)
def test_the_check_of_the_built_site(tmp_path: Path, html: str, problem: str | None) -> None:
    (tmp_path / "page.html").write_text(html, "utf-8")
    problems = runpy.run_path(str(ROOT / "tools" / "check_site.py"))["problems"]
    assert list(problems(tmp_path)) == ([f"page.html {problem}"] if problem else [])
