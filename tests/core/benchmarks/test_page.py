"""Check that the documentation pages agree with the run files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import balanced
import language_model
import page
import pytest
import tabular
import transformer
from store import ResultsError, Store, digest

ROOT = Path(__file__).parents[3]
TIERS = {
    "tabular": tabular,
    "transformer": transformer,
    "balanced": balanced,
    "language_model": language_model,
}
FILES = {**{name: (name, name) for name in TIERS}, "search": ("transformer_search", "transformer")}
"""By the name of a store: its file and its tier."""


@pytest.fixture(scope="module")
def blocks() -> Any:
    replayed = json.loads((ROOT / "benchmarks" / "methods" / "replayed.json").read_text())
    stores = {
        name: Store(
            ROOT / "benchmarks" / "results" / f"methods_{file}.jsonl",
            tier,
            {arm: digest(values) for arm, values in TIERS[tier].frozen().items()},
            replayed.get(tier),
        )
        for name, (file, tier) in FILES.items()
    }
    return page.blocks(stores)


@pytest.mark.parametrize("name", page.PAGES)
def test_a_pages_tables_are_those_of_the_runs(blocks: Any, name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    # The base policy's knowledge differs slightly by processor; a separate test measures it.
    measured = {**blocks, "base": lambda: _between(text, "base")}
    assert page.filled(text, measured, name) == text


def test_a_table_that_nobody_knows_is_refused(blocks: Any) -> None:
    with pytest.raises(ResultsError, match="x.md: there is no table 'nope'; known: headline,"):
        page.filled("<!-- methods: nope -->\n<!-- end -->", blocks, "x.md")


@pytest.mark.parametrize("name", TIERS)
def test_the_settings_are_the_frozen_ones(name: str) -> None:
    frozen = json.loads((ROOT / "benchmarks" / "methods" / "frozen.json").read_text())
    assert frozen[name] == {arm: digest(values) for arm, values in TIERS[name].frozen().items()}


def test_the_pictures_that_pages_show_are_drawn() -> None:
    shown = {
        found
        for name in page.PAGES
        for found in re.findall(r"\((?:results/)(\S+\.svg)\)", (ROOT / name).read_text("utf-8"))
    }
    assert shown
    assert all((ROOT / "docs" / "results" / picture).exists() for picture in shown)


def _between(text: str, name: str) -> str:
    found = re.search(rf"<!-- methods: {name} -->\n\n(.*?)\n\n<!-- end -->", text, re.DOTALL)
    return found[1] if found else ""
