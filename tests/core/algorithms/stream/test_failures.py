"""Check which failed responses are kept, and how many."""

from __future__ import annotations

import json
from collections.abc import Sequence

from prompt_coevo.algorithms.stream.failures import Failures
from prompt_coevo.types import EMPTY_TEMPLATE, Assignment, LateText, PolicyVersion, Rollout

BARE = EMPTY_TEMPLATE.id


def add(failures: Failures, question: int, name: str, completion: str, reward: float) -> None:
    failures.add(question, name, Rollout(Assignment("q"), completion, reward))
    failures.settle()


def test_the_latest_under_a_few_templates_and_always_the_bare_one() -> None:
    failures = Failures()
    add(failures, 7, BARE, "bare", 0.0)
    for name in "abcd":
        add(failures, 7, name, f"under {name}", 0.25)
    assert {name: one.completion for name, one in failures.of(7).items()} == {
        BARE: "bare",
        "c": "under c",
        "d": "under d",
    }
    add(failures, 7, BARE, "again", 0.5)
    assert failures.of(7)[BARE] == ("again", 0.5)


def test_what_was_solved_is_out_of_date() -> None:
    failures = Failures()
    add(failures, 7, BARE, "bare", 0.0)
    failures.solved(7, "other")
    assert 7 in failures
    failures.solved(7, BARE)
    assert 7 not in failures
    failures.solved(7, BARE)


def test_of_1024_questions_those_that_failed_last() -> None:
    failures = Failures()
    for question in range(1_030):
        add(failures, question, BARE, "no", 0.0)
    add(failures, 6, BARE, "again", 0.0)
    add(failures, 2_000, BARE, "no", 0.0)
    assert len(list(failures)) == 1_024
    assert 5 not in failures
    assert 6 in failures
    assert 7 not in failures
    assert list(failures)[-2:] == [6, 2_000]


def test_a_long_completion_keeps_its_beginning_and_its_end() -> None:
    failures = Failures()
    add(failures, 0, BARE, "x" * 8_000, 0.0)
    assert failures.of(0)[BARE].completion == "x" * 8_000
    add(failures, 0, BARE, "the beginning" + "x" * 50_000 + "the end", 0.0)
    kept = failures.of(0)[BARE].completion
    assert kept.startswith("the beginning")
    assert kept.endswith("the end")
    assert 7_900 < len(kept) < 8_100


def test_the_state_is_json_without_questions_that_are_gone() -> None:
    failures, again = Failures(), Failures()
    add(failures, 0, BARE, "no", 0.0)
    add(failures, 1, "z", "nor this", 0.5)
    again.load(json.loads(json.dumps(failures.to_json(["a", "b"]))), {"b": 4})
    assert list(again) == [4]
    assert again.of(4) == {"z": ("nor this", 0.5)}


def test_only_texts_that_stay_are_read_and_all_in_one_call() -> None:
    asked = []

    def source(names: Sequence[str]) -> list[str]:
        asked.append(list(names))
        return [f"text of {name}" for name in names]

    failures = Failures()
    for question, name in [(1, "a"), (1, "b"), (2, "c"), (3, "d")]:
        late = LateText(source, name)
        failures.add(question, BARE, Rollout.scored(Assignment("q"), late, 0.0, PolicyVersion()))
    failures.solved(3, BARE)
    failures.settle()
    assert asked == [["b", "c"]]
    assert failures.of(1)[BARE].completion == "text of b"
    failures.settle()
    assert len(asked) == 1
