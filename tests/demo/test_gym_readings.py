"""Check how answers to reasoning-gym questions are read, and when a family is trainable."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from prompt_coevo.demo.world import World, base_path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import language_probe
from language_gym import FAMILIES, qualifies, readings, right, table


def test_five_readings() -> None:
    said = "It is 3 + 4.\n\nSo the answer is <answer> 7 </answer> of -2.5 apples.\n"
    assert readings(said) == {
        "whole": said.strip(),
        "last line": "So the answer is <answer> 7 </answer> of -2.5 apples.",
        "last number": "-2.5",
        "last word": "apples",
        "tags": "7",
    }
    assert readings("Yes.") == {
        "whole": "Yes.",
        "last line": "Yes.",
        "last number": None,
        "last word": "Yes",
        "tags": None,
    }


def test_a_verifier_that_fails_gives_nothing() -> None:
    class Verifier:
        def score_answer(self, answer: str, item: dict[str, Any]) -> float:
            return float(int(answer) == item["answer"])

    item = {"answer": 7}
    assert [right(Verifier(), item, text) for text in ("7", "8", "seven", None)] == [
        True,
        False,
        False,
        False,
    ]


def row(bare: list[float], told: list[float]) -> dict[str, Any]:
    nothing = {reading: [0.0, 0.0] for reading in readings("")}
    return {
        "family": "f",
        "items": 6,
        "question": "?",
        "bare": {"said": "", **nothing, "whole": bare},
        "told": {"said": "", **nothing, "whole": told},
    }


@pytest.mark.parametrize(
    ("bare", "told", "found"),
    [
        ([0.0, 0.0], [0.02, 0.1], [("whole", "told")]),
        ([0.0, 0.0], [0.01, 0.2], [("whole", "told")]),
        ([0.0, 0.0], [0.01, 0.1], []),
        ([0.1, 0.5], [0.9, 1.0], []),
    ],
)
def test_what_qualifies(bare: list[float], told: list[float], found: list[tuple[str, str]]) -> None:
    assert qualifies(row(bare, told)) == found


def test_the_table_names_the_best_template() -> None:
    assert table([row([0.0, 0.0], [0.5, 1.0])]).splitlines()[2] == (
        "| f | 0.0 / 0.0 | 0.0 / 0.0 | 0.5 / 1.0 | 0.5 / 1.0 | told | whole |"
    )


def test_every_family_can_be_made() -> None:
    gym = pytest.importorskip("reasoning_gym")
    for family, (sizes, _) in FAMILIES.items():
        dataset = gym.create_dataset(family.split(":")[0], seed=1, size=8, **sizes)
        distinct = {item["question"]: item for item in dataset if item["answer"]}
        assert len(distinct) >= 2, family
        item = next(iter(distinct.values()))
        assert right(dataset, item, item["answer"]), family


@pytest.mark.parametrize("computes", [True, False])
def test_pass_rates_are_measured_in_bfloat16_where_the_machine_computes_in_it(
    monkeypatch: pytest.MonkeyPatch, computes: bool
) -> None:
    monkeypatch.setattr(language_probe, "computes_bfloat16", lambda: computes)
    model, _ = language_probe.load(str(base_path(World())))
    assert model.dtype is (torch.bfloat16 if computes else torch.float32)
    assert language_probe.load(str(base_path(World())), torch.float32)[0].dtype is torch.float32
