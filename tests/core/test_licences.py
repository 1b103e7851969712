"""Check the licence list: complete, as installed, and with every copyleft licence reviewed."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TOOL: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "licences.py"))
PAGE = (ROOT / "docs" / "licences.md").read_text("utf-8")
ROWS = {
    name: (licence, comes)
    for name, licence, comes in re.findall(r"^\| ([a-z0-9-]+) \| (.*) \| (.*) \|$", PAGE, re.M)
}


def with_a_user(rows: dict[str, tuple[str, str]]) -> dict[str, str]:
    return {name: licence for name, (licence, comes) in rows.items() if comes != "tests"}


@pytest.mark.parametrize("name", TOOL["EXTRAS"])
def test_every_pinned_package_is_in_the_list(name: str) -> None:
    """Packages that only other platforms need are excepted."""
    assert pinned_in(name)
    assert pinned_in(name) - set(ROWS) == set()


def pinned_in(name: str) -> set[str]:
    text = (ROOT / "constraints" / f"{name}.txt").read_text("utf-8")
    return set(re.findall(r"^([a-z0-9-]+)==\S+ \\$", text, re.MULTILINE))


def test_the_list_is_what_is_installed_here() -> None:
    """Only packages that an environment pins are compared; more may be installed."""
    pinned = set().union(*(pinned_in(name) for name in TOOL["EXTRAS"]))
    here = {name: text for name, text in TOOL["installed"]().items() if name in pinned}
    assert here
    assert {name: ROWS[name][0] for name in here} == {
        name: " ".join(text.split()).replace("|", "/") for name, text in here.items()
    }


@pytest.mark.parametrize("extra", ["", "llm", "report"])
def test_what_an_extra_brings_is_listed_with_it(extra: str) -> None:
    """The environment of these tests has all of these extras."""
    brought = TOOL["brought_by"](extra)
    assert brought >= {"numpy", "pluggy", "pydantic", "typer"}
    wanted = f"`{extra}`"
    missing = {
        name for name in brought if ROWS[name][1] != "the package" and wanted not in ROWS[name][1]
    }
    assert missing == set()


def test_no_copyleft_comes_with_the_package_or_an_extra_but_the_known() -> None:
    found = {name for name, licence in with_a_user(ROWS).items() if TOOL["is_copyleft"](licence)}
    assert found == set(TOOL["KNOWN"])
    for name in found:
        assert ROWS[name][0].startswith(("MPL-2.0", "Mozilla Public License 2.0"))
        assert f"| {name} | {TOOL['KNOWN'][name]} |" in PAGE


def test_every_package_of_a_user_states_a_licence() -> None:
    found = {name for name, licence in with_a_user(ROWS).items() if licence == TOOL["NOT_STATED"]}
    assert found == {"openrlhf"}


@pytest.mark.parametrize(
    ("text", "copyleft"),
    [
        ("MIT", False),
        ("Apache-2.0 OR BSD-3-Clause", False),
        ("MIT OR GPL-2.0-only", False),
        ("GPL-3.0-or-later OR LGPL-3.0-only", True),
        ("GPL-3.0-or-later", True),
        ("LGPLv2+", True),
        ("GNU General Public License v3 (GPLv3)", True),
        ("GNU Affero General Public License v3", True),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
        ("MPL-2.0 AND MIT", True),
        ("Mozilla Public License 2.0 (MPL 2.0)", True),
        ("free to deploy", False),
    ],
)
def test_copyleft_is_recognised(text: str, copyleft: bool) -> None:
    assert TOOL["is_copyleft"](text) is copyleft
