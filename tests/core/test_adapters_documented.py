"""Check that `docs/adapters.md` shows only tested code, and every field of the adapter's words."""

from __future__ import annotations

import importlib
import re
from dataclasses import fields
from pathlib import Path

import pytest

from prompt_coevo import types
from prompt_coevo.extras import is_installed

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adapters.md").read_text("utf-8")
TESTED = (
    "docs/examples/own_trainer.py",
    "docs/examples/own_adapter.py",
    "tests/laws/trl/test_adapter.py",
)
WORDS = (
    types.Question,
    types.Candidate,
    types.MemberPlan,
    types.Assignment,
    types.RolloutRequest,
    types.Sampling,
    types.Rollout,
)
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[-1].strip())
def test_every_block_is_cut_out_of_a_tested_file(block: str) -> None:
    assert any(block in (ROOT / name).read_text("utf-8") for name in TESTED)


def test_there_is_no_other_code() -> None:
    assert PAGE.count("```") == 2 * len(BLOCKS) > 20


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.__name__)
def test_every_field_is_named_in_order(word: type) -> None:
    section = PAGE.split(f"\n**{word.__name__}** ")[1].split("\n**")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [
        field.name for field in fields(word)
    ]


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
