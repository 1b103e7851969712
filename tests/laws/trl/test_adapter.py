"""Check that the tutorial's adapter keeps all laws, and that laws fail where they cannot prove anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.own_adapter_run import OwnAdapterUnderTest
from prompt_coevo.testing.adapter import LAWS, Job, Laboratory, Record, adapter_laws

test_own_adapter = adapter_laws(OwnAdapterUnderTest)


@pytest.mark.parametrize(
    ("law", "config", "sentence"),
    [
        (
            "policy rollouts are by the live weights",
            {"learning_rate": 0.0},
            "no update changed what is written greedily, so this proves nothing",
        ),
        (
            "sampled rollouts are drawn anew",
            {"temperature": 1e-4, "learning_rate": 1e-6},
            "all requests without a temperature agree",
        ),
    ],
)
def test_a_run_that_could_not_break_a_law_breaks_it(
    law: str, config: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    laboratory = Laboratory(OwnAdapterUnderTest(**config), tmp_path)
    with pytest.raises(AssertionError, match=sentence):
        LAWS[law].check(laboratory)


class OnTwoRanks(OwnAdapterUnderTest):
    """Claim to have run in two processes, which the trainer cannot."""

    lacks: dict[Any, str] = {}  # noqa: RUF012 (never written to)
    engines, weights = 1, ("a", "a")

    def run(self, job: Job, folder: Path) -> Record:
        record = super().run(job, folder)
        record.engines, record.rank_weights = self.engines, self.weights
        return record


@pytest.mark.parametrize(
    ("name", "engines", "weights", "sentence"),
    [
        ("ranks have one engine and one plan", 2, ("a", "a"), "2 processes built an engine"),
        ("ranks have one engine and one plan", 1, ("a", "b"), "2 different weights"),
        ("ranks stay in step where a reward raises", 1, ("a", "b"), "2 different weights"),
    ],
)
def test_the_laws_on_ranks(
    name: str, engines: int, weights: tuple[str, str], sentence: str, tmp_path: Path
) -> None:
    law, adapter = LAWS[name], OnTwoRanks()
    (tmp_path / "right").mkdir()
    law.check(Laboratory(adapter, tmp_path / "right"))
    adapter.engines, adapter.weights = engines, weights
    (tmp_path / "wrong").mkdir()
    with pytest.raises(AssertionError, match=sentence):
        law.check(Laboratory(adapter, tmp_path / "wrong"))
