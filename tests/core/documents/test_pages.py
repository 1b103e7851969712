"""Check that generated pages are up to date with the code, and name only what exists."""

from __future__ import annotations

import os
import pkgutil
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

import prompt_coevo
from helpers.documented import ROOT
from prompt_coevo.testing.adapter.host import Capability

PAGES: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "pages.py"))["PAGES"]
CAPABILITIES: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "page_capabilities.py"))
CLI = (ROOT / "docs" / "cli.md").read_text("utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_the_code_says(name: str) -> None:
    made = PAGES[name]()
    assert (ROOT / name).read_text("utf-8") == made, (
        f"{name} is older than the code: python tools/pages.py"
    )


def test_every_capability_has_words() -> None:
    assert set(CAPABILITIES["_WORDS"]) == set(get_args(Capability))


def test_every_adapter_is_in_the_table() -> None:
    folders = {path.parent.name for path in (ROOT / "adapters").glob("*/__init__.py")} - {"common"}
    assert {source for _, source, _ in CAPABILITIES["ADAPTERS"].values()} >= {
        f"adapters/{folder}" for folder in folders
    }


@pytest.mark.parametrize(
    ("section", "parts"),
    [
        ("prompt-coevo retrieval build", ["* `corpus <path>`: ", "[default: bm25]", "[required]"]),
        ("prompt-coevo demo", ["* `--quick`: ", "* `--reflection-lm MODEL`: "]),
        ("prompt-coevo report", ["pip install 'prompt-coevo[report]'"]),  # no markup of rich
    ],
)
def test_the_command_line_has_arguments_options_and_defaults(
    section: str, parts: list[str]
) -> None:
    text = CLI.split(f"## `{section}`\n")[1].split("\n##")[0]
    assert [part for part in parts if part not in text] == []


def test_every_public_name_is_on_the_page_of_the_interface() -> None:
    shown = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text("utf-8"), re.MULTILINE)
    assert {f"prompt_coevo.{name}" for name in prompt_coevo.__all__} <= set(shown)
    for address in shown:  # the site's build finds those that need a framework
        if not address.startswith("prompt_coevo.adapters"):
            pkgutil.resolve_name(address)


def test_the_drawn_loops_are_as_the_tool_draws_them() -> None:
    drawn = runpy.run_path(str(ROOT / "tools" / "draw_loops.py"))["DRAWN"]
    folder = ROOT / "docs" / "loops"
    assert {path.stem for path in folder.iterdir()} == {*drawn} >= {"group", "p2o", "inspo"}
    for name, draw in drawn.items():
        text = (folder / f"{name}.svg").read_text("utf-8")
        assert text == draw()
        assert re.search(r"<title id=.*?>.+</title><desc id=.*?>.{80,}</desc>", text)
        assert "prefers-color-scheme: dark" in text
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_tests_without_the_package_say_what_to_do(tmp_path: Path) -> None:
    """Run from a checkout in which adapters/ and retrieval/ are not part of the package."""
    (tmp_path / "prompt_coevo").symlink_to(ROOT / "prompt_coevo")
    command = [
        sys.executable,
        "-P",
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "tests/core/test_types.py",
    ]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment
    )
    assert done.returncode == 4
    assert "the tests need prompt_coevo installed" in done.stderr
    assert "Traceback" not in done.stderr
