"""Draw an engine's life: the order of calls, who answers, and when the process dies.

More lives, others each time: `COEVO_LIVES=2000 pytest tests/core/engine/test_life.py`.
"""

from __future__ import annotations

import os
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from helpers.engine_life import SETTINGS, EngineLife

LIVES: Final = os.environ.get("COEVO_LIVES")

EngineLife.TestCase.settings = settings(
    max_examples=int(LIVES or 25),
    stateful_step_count=20,
    derandomize=LIVES is None,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestEngineLife = EngineLife.TestCase


def test_what_a_batch_was_answered_before_a_checkpoint_is_not_asked_for_again() -> None:
    """One of the batch's two replies was there when the state was saved, the other was not."""
    life = EngineLife()
    life.born(kind="stream", max_calls=None, outcomes=("answer",), salt=1)
    life.answer(number=0)
    assert (len(life.run.model._held()), life.run.model.seen.total()) == (2, 3)
    life.save(finish=True)
    life.kill(stops=[])
    assert life.run.model.seen.total() == 5
    life.no_answer_is_asked_for_again()
    life.train(questions=6, first=12)
    life.teardown()


@pytest.mark.parametrize("kind", SETTINGS)
def test_what_was_answered_after_a_checkpoint_is_not_asked_for_again(kind: str) -> None:
    """The run is killed twice on the way, and every method makes calls in it."""
    life = EngineLife()
    life.born(kind=kind, max_calls=None, outcomes=("answer",), salt=1)
    life.save(finish=True)
    for first in (12, 18):
        life.train(questions=6, first=first)
        for _ in range(8):
            life.answer(number=0)
    life.epoch()
    seen = life.run.model.seen.total()
    life.kill(stops=[5, 9])
    assert 0 < seen == life.run.model.seen.total() - life.run.model.lost.total()
    life.every_call_is_in_the_ledger()
    life.no_answer_is_asked_for_again()
    life.train(questions=6, first=0)
    life.teardown()
