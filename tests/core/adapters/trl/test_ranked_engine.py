from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from helpers.thread_ranks import ThreadRanks
from prompt_coevo import Coevolution, Settings, hookimpl
from prompt_coevo.adapters.trl.ranked_engine import RankedEngine
from prompt_coevo.adapters.trl.ranks import Ranks
from prompt_coevo.errors import HostError
from prompt_coevo.types import Candidate, Group


class Watcher:
    """A third-party plugin that sees whole groups and provides an instruction for evaluation."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[float]]] = []

    @hookimpl
    def coevo_observe(self, groups: list[Group]) -> None:
        self.seen += [(one.question_id, [r.reward for r in one.rollouts]) for one in groups]

    @hookimpl
    def coevo_evaluation_instruction(self) -> Candidate:
        return Candidate("Think.", "instruction")


def engine_for(ranks: Ranks, watcher: Watcher) -> RankedEngine:
    engine = Coevolution.from_settings(Settings(algorithms=()), plugins={"watcher": watcher})
    return RankedEngine(engine if ranks.is_main else None, ranks)


def test_a_group_may_span_two_ranks() -> None:
    """Three rows per rank make three groups of two, so the middle group is on both ranks."""
    watcher = Watcher()
    ids = [["a", "a", "b"], ["b", "c", "c"]]

    def act(ranks: ThreadRanks) -> Any:
        engine = engine_for(ranks, watcher)
        plan = engine.plan(ids[ranks.rank], 2, "num_generations")
        texts = [(one, f"{one.question_id}{one.member}", None) for one in plan.mine]
        engine.observe(texts, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
        return [(one.question_id, one.member) for one in plan.mine], len(plan.whole)

    first, second = ThreadRanks.run(2, act)
    assert first == ([("a", 0), ("a", 1), ("b", 0)], 6)
    assert second == ([("b", 1), ("c", 0), ("c", 1)], 6)
    assert watcher.seen == [("a", [0.0, 1.0]), ("b", [2.0, 3.0]), ("c", [4.0, 5.0])]


def test_every_rank_evaluates_under_the_same_instruction() -> None:
    found = ThreadRanks.run(2, lambda ranks: engine_for(ranks, Watcher()).evaluation())
    assert [one and one.rollout_prompt("why?") for one in found] == ["Think.\n\nwhy?"] * 2


def test_rows_that_are_no_groups_are_refused() -> None:
    engine = engine_for(Ranks(0, 1, timedelta(minutes=1)), Watcher())
    with pytest.raises(
        HostError, match="rows 2 to 3 .* should be 2 rollouts .* every question G times"
    ):
        engine.plan(["a", "a", "b", "c"], 2, "G")


def test_ranks_with_other_settings_are_refused_on_every_rank() -> None:
    def checked(ranks: ThreadRanks) -> str:
        try:
            ranks.check_alike({"seed": 0, "p2o": {"tau": 0.2 if ranks.rank < 2 else 0.1}})
        except HostError as error:
            return str(error)
        return ""

    assert ThreadRanks.run(2, checked) == ["", ""]
    told = ThreadRanks.run(3, checked)
    assert len(set(told)) == 1
    assert told[0].startswith(
        "rank 2 has other settings than rank 0 (p2o); give all ranks the same"
    )
