"""Check when the texts of a trainer's rows are fetched, and which."""

from __future__ import annotations

from collections.abc import Sequence

from prompt_coevo import Coevolution, Settings
from prompt_coevo.adapters.common.late_texts import LateTexts
from prompt_coevo.types import Assignment, PolicyVersion, Rollout


class Rows:
    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.texts = LateTexts(self._fetch)

    def _fetch(self, names: Sequence[str]) -> list[str]:
        self.asked.append(list(names))
        return [f"text of {name}" for name in names]

    def rollouts(self, count: int) -> list[Rollout]:
        made = []
        for number in range(count):
            late = self.texts.late(str(number))
            made.append(Rollout.scored(Assignment("q"), late, 0.0, PolicyVersion()))
        return made


def test_what_somebody_holds_is_there_after_the_rows_are_gone_and_nothing_else_was_fetched() -> (
    None
):
    rows = Rows()
    rollouts = rows.rollouts(5)
    held = [rollouts[3], rollouts[1]]
    del rollouts
    rows.texts.close()
    assert rows.asked == [["1", "3"]]
    assert [one.completion for one in held] == ["text of 3", "text of 1"]
    assert len(rows.asked) == 1


def test_of_one_that_is_held_nothing_behind_it_is_fetched() -> None:
    """When the rows are about to go, only the held text is fetched, and none after it."""
    rows = Rows()
    held, *others = rows.rollouts(5)
    del others
    rows.texts.close()
    assert rows.asked == [["0"]]
    assert held.completion == "text of 0"


def test_who_reads_one_after_the_other_does_not_wait_for_each() -> None:
    rows = Rows()
    rollouts = rows.rollouts(200)
    assert [one.completion for one in rollouts] == [f"text of {n}" for n in range(200)]
    assert list(map(len, rows.asked)) == [64, 64, 64, 8]


def test_the_engine_holds_no_rollout_of_a_round_that_it_took_in() -> None:
    """The engine keeps no rollout of a finished round; otherwise every text would be fetched."""
    engine = Coevolution.from_settings(Settings(algorithms=()))
    rows = Rows()

    def taken_in() -> None:
        plan = engine.plan(["a", "b"], 2)
        rollouts = []
        for number, assignment in enumerate(plan):
            late = rows.texts.late(str(number))
            rollouts.append(Rollout.scored(assignment, late, 0.0, PolicyVersion()))
        engine.observe(rollouts)

    taken_in()
    rows.texts.close()
    assert rows.asked == []


def test_nothing_of_a_batch_is_kept_behind_the_next_ones() -> None:
    """Nothing of a batch is kept once the next one arrives: a run has millions of rollouts."""
    rows = Rows()
    for _ in range(3):
        rollouts = rows.rollouts(4)
        rows.texts.close()
        assert [one.completion for one in rollouts] == [f"text of {n}" for n in range(4)]
        kept = (rows.texts._names, rows.texts._places, rows.texts._held, rows.texts._ahead)
        assert [len(one) for one in kept] == [0, 0, 0, 0]
    assert rows.asked == [["0", "1", "2", "3"]] * 3
