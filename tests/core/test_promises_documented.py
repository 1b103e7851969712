"""Check that the tests and promises that the documents name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FAULTS = (ROOT / "docs" / "faults.md").read_text("utf-8")
ROW = re.compile(r"^\| (.*) \| (.*) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_test_that_is_named_is_there(page: Path) -> None:
    for path, test in TEST.findall(page.read_text("utf-8")):
        assert f"def {test}(" in (ROOT / path).read_text("utf-8") or not test


def rows(text: str) -> list[tuple[str, str]]:
    return [row for row in ROW.findall(text) if set(row[0]) != {"-"}]


def test_every_fault_and_every_promise_has_a_test() -> None:
    found = [row for row in rows(FAULTS) if not row[1].startswith(("test", "---"))]
    assert len(found) > 60
    assert [promise for promise, test in found if not TEST.search(test)] == []


def test_the_promises_are_those_of_the_first_pages() -> None:
    first = "\n".join((ROOT / name).read_text("utf-8") for name in ("README.md", "docs/index.md"))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first)
    readme = " ".join(text.replace("**", "").split())
    promised = [promise for promise, _ in rows(FAULTS.split("## Promises")[1])][1:]
    assert len(promised) > 20
    assert [promise for promise in promised if promise not in readme] == []
