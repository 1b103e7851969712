"""Check that `docs/adapters.md` shows only tested code, and modules that need no framework."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from prompt_coevo.extras import is_installed

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adapters.md").read_text("utf-8")
TESTED = (
    "docs/examples/own_trainer.py",
    "docs/examples/own_adapter.py",
    "tests/laws/trl/test_adapter.py",
)
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[-1].strip())
def test_every_block_is_cut_out_of_a_tested_file(block: str) -> None:
    assert any(block in (ROOT / name).read_text("utf-8") for name in TESTED)


def test_there_is_no_other_code() -> None:
    assert PAGE.count("```") == 2 * len(BLOCKS) > 20


def test_what_is_offered_to_other_adapters_needs_no_framework() -> None:
    section = PAGE.split("## What is there for an adapter")[1].split("\n## ")[0]
    rows = [row for row in re.findall(r"^\| (`.*)$", section, re.MULTILINE) if "needs" not in row]
    names = [name for row in rows for name in re.findall(r"`([\w.]+)`", row.split("|")[0])]
    assert len(names) > 20
    for name in names:
        needs_torch = name == "ratio_tensors" and not is_installed("torch")
        where = name if "." in name else f"common.{name}"
        if not needs_torch:
            importlib.import_module(f"prompt_coevo.adapters.{where}")
