"""Check questions that arrive late: which are kept, and that all ranks keep the same."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from helpers.thread_ranks import ThreadRanks
from prompt_coevo import Coevolution, Settings, hookimpl
from prompt_coevo.adapters.common import questions as module
from prompt_coevo.adapters.common.columns import index_columns
from prompt_coevo.adapters.common.policy import AdapterPolicy
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.trl.late_rows import LateRows
from prompt_coevo.adapters.trl.ranked_engine import RankedEngine
from prompt_coevo.adapters.trl.ranks import Ranks
from prompt_coevo.adapters.trl.streams import (
    _looked_at,
    index_stream,
    load_late_rows,
    save_late_rows,
)
from prompt_coevo.errors import DatasetError, StateError

SETTINGS = Settings(algorithms=(), question_id_column="id", ground_truth_column=None)
ALONE = Ranks(0, 1, timedelta(seconds=1))


def row(number: int, **changes: Any) -> dict[str, Any]:
    return {"id": f"q{number}", "prompt": f"what is {number}?", **changes}


def index(**options: Any) -> QuestionIndex:
    return index_columns([row(0), row(1)], SETTINGS, **options)


def test_a_late_question_is_known_like_any_other() -> None:
    questions = index()
    questions.learn(row(2, prompt="a much longer question than all the others"))
    questions.learn(row(1, prompt="known already"))
    assert questions.ids() == ["q0", "q1", "q2"]
    assert "q2" in questions
    assert len(questions) == 3
    assert questions.question("q2").prompt == questions.longest_prompts()[-1]
    assert questions.row("q1") == row(1)
    with pytest.raises(DatasetError, match="lacks one of the columns"):
        questions.learn({"id": "q3"})


def test_in_a_stream_an_id_of_two_questions_is_refused() -> None:
    questions = index(streamed=True)
    questions.learn(row(1))
    with pytest.raises(DatasetError, match="'q1' stands for two different questions"):
        questions.learn(row(1, prompt="another one"))


class Holds:
    """A third-party plugin that keeps one question in use and records which questions it learns of."""

    def __init__(self) -> None:
        self.learned: list[int] = []

    @hookimpl
    def coevo_questions_in_use(self) -> list[str]:
        return ["q3"]

    @hookimpl
    def coevo_questions_learned(self, policy: Any) -> None:
        self.learned.append(len(policy.question_ids()))


def test_all_ranks_learn_and_forget_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions in use and the latest others are kept; the dataset's own questions always stay."""
    monkeypatch.setattr(module, "LATE_KEPT", 4)
    plugin = Holds()

    def act(ranks: ThreadRanks) -> list[str]:
        engine = Coevolution.from_settings(SETTINGS, plugins={"holds": plugin})
        ranked = RankedEngine(engine if ranks.is_main else None, ranks)
        questions = index(streamed=True)
        policy = AdapterPolicy(questions)
        late = LateRows(questions, ranked, policy)
        for number in range(2, 14, 2):
            late.meet([row(number + ranks.rank)] * 2)
        late.meet([row(0)])
        return questions.ids()

    first, second = ThreadRanks.run(2, act)
    assert first == second == ["q0", "q1", "q3", "q10", "q11", "q12", "q13"]
    assert plugin.learned == [4, 6, 8, 9, 9, 9]


def alone(questions: QuestionIndex) -> LateRows:
    return LateRows(questions, RankedEngine(None, ALONE), AdapterPolicy(questions))


def test_no_question_of_a_round_is_forgotten_before_it_is_trained_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LATE_KEPT", 4)
    questions = index(streamed=True)
    late = alone(questions)
    for numbers in (range(2, 7), (2, 7)):
        late.meet([row(n) for n in numbers])
    assert [*questions.late] == ["q2", "q5", "q6", "q7"]  # q2 is new again, q3 and q4 are not
    many = range(20, 30)
    late.meet([row(n) for n in many])
    assert [*questions.late] == [f"q{n}" for n in many]
    late.meet([row(30)] * 3)
    assert len(questions.late) == 11  # not checked in every round


def test_questions_that_come_again_are_the_latest_on_all_ranks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LATE_KEPT", 4)

    def act(ranks: ThreadRanks) -> list[str]:
        questions = index(streamed=True)
        policy = AdapterPolicy(questions)
        late = LateRows(questions, RankedEngine(None, ranks), policy)
        for numbers in ((2, 3), (4, 5), (2, 4), (6, 7)):  # a rank's own one of each round
            mine = numbers[ranks.rank]
            late.meet([row(mine)])
        return [*questions.late]

    first, second = ThreadRanks.run(2, act)
    assert first == second == ["q2", "q4", "q6", "q7"]


@pytest.mark.parametrize("known", [False, True])
def test_one_id_for_two_questions_of_a_round_is_refused_on_every_rank(known: bool) -> None:
    other = row(2, prompt="another one")

    def act(ranks: ThreadRanks) -> str:
        questions = index(streamed=True)
        policy = AdapterPolicy(questions)
        late = LateRows(questions, RankedEngine(None, ranks), policy)
        if known:
            late.meet([row(2)])
        with pytest.raises(DatasetError) as raised:
            late.meet([row(0)] if ranks.is_main else [row(2), row(2), other, other, row(2)])
        return str(raised.value)

    first, second = ThreadRanks.run(2, act)
    assert first == second
    assert "'q2' stands for two different questions" in first


def test_rows_travel_in_checkpoints(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    questions = index()
    questions.learn(row(2, note={"a": [1]}))
    questions.learn(row(3, image=object()))
    save_late_rows(questions, tmp_path)
    assert "1 rows of the training dataset cannot be saved as JSON" in caplog.text
    again = index()
    load_late_rows(again, tmp_path, ALONE)
    assert again.ids() == ["q0", "q1", "q2"]
    assert again.row("q2") == row(2, note={"a": [1]})
    load_late_rows(again, tmp_path / "elsewhere", ALONE)  # of a run without late rows


def test_rows_of_an_earlier_run_do_not_stay_in_a_checkpoint(tmp_path: Path) -> None:
    """A folder may be reused, as by a run that starts from scratch."""
    questions = index()
    questions.learn(row(2))
    save_late_rows(questions, tmp_path)
    save_late_rows(index(), tmp_path)
    assert [*tmp_path.iterdir()] == []
    save_late_rows(index(), tmp_path)


@pytest.mark.parametrize("line", ["{", "[]", "7", '{"id": "q5"}', '{"prompt": 7, "id": "q5"}'])
def test_damaged_rows_are_refused(tmp_path: Path, line: str) -> None:
    good = json.dumps(row(4))
    (tmp_path / "coevo_rows.jsonl").write_text(f"{good}\n{line}\n")
    with pytest.raises(StateError, match="has rows that cannot be read") as raised:
        load_late_rows(index(), tmp_path, ALONE)
    assert "\n" not in str(raised.value)


def test_other_machines_learn_the_rows_that_rank_0_has(tmp_path: Path) -> None:
    """Only rank 0's disk has the checkpoint's rows."""
    questions = index()
    questions.learn(row(2))
    save_late_rows(questions, tmp_path)

    def act(ranks: ThreadRanks) -> list[str]:
        again = index()
        load_late_rows(again, tmp_path if ranks.is_main else tmp_path / "another disk", ranks)
        return again.ids()

    assert ThreadRanks.run(2, act) == [["q0", "q1", "q2"]] * 2


def test_damaged_rows_are_refused_on_every_rank(tmp_path: Path) -> None:
    (tmp_path / "coevo_rows.jsonl").write_text("{")

    def act(ranks: ThreadRanks) -> None:
        with pytest.raises(StateError, match=f"^{tmp_path}/coevo_rows.jsonl has rows that"):
            load_late_rows(index(), tmp_path if ranks.is_main else tmp_path / "gone", ranks)

    ThreadRanks.run(2, act)


def test_all_ranks_know_what_rank_0_has_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    """Streams that start differently each time must start alike on every rank."""

    def act(ranks: ThreadRanks) -> list[str]:
        return index_stream(iter([row(ranks.rank), row(2)]), SETTINGS, ranks).ids()

    assert ThreadRanks.run(2, act) == [["q0"], ["q0"]]
    assert "starts with another row when it is read again" in caplog.text

    def empty_here(ranks: ThreadRanks) -> list[str]:
        return index_stream([row(7)] if ranks.is_main else [], SETTINGS, ranks).ids()

    assert ThreadRanks.run(2, empty_here) == [["q7"], ["q7"]]


def test_an_empty_stream_is_refused() -> None:
    with pytest.raises(DatasetError, match="the training dataset is empty"):
        index_stream(iter(()), SETTINGS, ALONE)


class Array(list[float]):
    """Compare element by element, as numpy arrays do."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("The truth value of an array with more than one element is ambiguous")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(("seconds", "same"), [(1.0, True), (2.0, False)])
def test_the_first_look_at_a_stream_compares_rows_with_arrays(seconds: float, same: bool) -> None:
    starts = iter([1.0, seconds])

    class Stream:
        def __iter__(self) -> Any:
            first = next(starts)
            return iter([{"prompt": "one", "at": Array([first, 0.0])}])

    rows, again = _looked_at(Stream())
    assert (len(rows), again) == (1, same)
