"""Check that litellm knows the price of every reflection model that the example files set."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from helpers.documented import ROOT

_NAMED = re.compile(r"(?:REFLECTION_MODEL:-|--reflection_model )([\w./-]+)")
FILES = [*(ROOT / "docs" / "examples").glob("*.sh"), *(ROOT / "docs" / "examples").glob("trl_*.py")]
FILES += [ROOT / "docs" / "recipes.md"]
NAMED = sorted({name for file in FILES for name in _NAMED.findall(file.read_text("utf-8"))})


@pytest.fixture(scope="module")
def prices() -> dict[str, Any]:
    """Read the list that comes with litellm; without a network litellm itself uses it."""
    spec = find_spec("litellm")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).with_name("model_prices_and_context_window_backup.json")
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def test_the_examples_name_models() -> None:
    assert {"deepinfra/moonshotai/Kimi-K2-Instruct", "gemini/gemini-2.5-pro"} <= set(NAMED)


@pytest.mark.parametrize("name", NAMED)
def test_the_model_has_a_price(name: str, prices: dict[str, Any]) -> None:
    known = prices.get(name) or prices[name.removeprefix("openai/")]
    assert known["mode"] == "chat"
    assert known["input_cost_per_token"] > 0
    assert known["output_cost_per_token"] > 0
