"""Check the buffer that reflection and verification draw from, and that it stays small."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from prompt_coevo.algorithms.inspo.replay import Experience, ReplayBuffer


def buffer(max_rollouts: int = 1000, max_bytes: int = 10_000) -> ReplayBuffer:
    return ReplayBuffer(max_rollouts=max_rollouts, max_bytes=max_bytes)


def failure(question: str, completion: str = "wrong") -> Experience:
    return Experience(question, completion, 0.0)


def success(question: str) -> Experience:
    return Experience(question, "right", 1.0)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_failures_are_those_of_the_newest_step_that_had_any() -> None:
    made = buffer()
    made.add(1, [failure("a"), failure("b")])
    made.add(2, [failure("c"), success("d")])
    assert [one.question_id for one in made.failures(9, rng())] == ["c"]
    made.add(3, [success("a")])
    assert [one.question_id for one in made.failures(9, rng())] == ["c"]


def test_a_step_may_be_observed_in_parts() -> None:
    made = buffer()
    made.add(1, [failure("a")])
    made.add(1, [failure("b")])
    assert {one.question_id for one in made.failures(9, rng())} == {"a", "b"}


def test_a_reward_below_the_limit_is_a_failure() -> None:
    made = ReplayBuffer(max_rollouts=9, max_bytes=99, solved_at=0.5)
    made.add(1, [Experience(name, "", reward) for name, reward in [("a", 0.49), ("b", 0.5)]])
    assert [one.question_id for one in made.failures(9, rng())] == ["a"]


def test_nothing_has_failed() -> None:
    made = buffer()
    assert made.failures(4, rng()) == []
    assert made.questions(4, rng()) == []
    made.add(1, [success("a")])
    assert made.failures(4, rng()) == []


@pytest.mark.parametrize("seed", range(5))
def test_failures_are_of_different_questions_first(seed: int) -> None:
    made = buffer()
    made.add(1, [failure("a", f"{n}") for n in range(20)] + [failure("b"), failure("c")])
    shown = made.failures(4, rng(seed))
    assert {one.question_id for one in shown[:3]} == {"a", "b", "c"}
    assert shown[3].question_id == "a"
    assert shown[3] not in shown[:3]


def test_equal_failures_of_one_question_are_all_there() -> None:
    made = buffer()
    made.add(1, [failure("a") for _ in range(3)])
    assert len(made.failures(9, rng())) == 3


def test_failures_are_drawn_at_random_and_by_the_generator_alone() -> None:
    made = buffer()
    made.add(1, [failure(str(n)) for n in range(50)])
    draws = [[one.question_id for one in made.failures(4, rng(seed))] for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


def test_questions_are_distinct_and_each_as_likely() -> None:
    made = buffer()
    # "0" has been rolled out far more often than the others.
    made.add(1, [success("0")] * 500 + [failure(str(n)) for n in range(10)])
    draws = 2000
    counts: Counter[str] = Counter()
    for seed in range(draws):
        drawn = made.questions(3, rng(seed))
        assert len(set(drawn)) == 3
        counts.update(drawn)
    expected = draws * 3 / 10
    chi_square = sum((counts[str(n)] - expected) ** 2 / expected for n in range(10))
    assert chi_square < 21.7  # 99 % of a chi-square with 9 degrees of freedom


def test_fewer_questions_than_asked_for() -> None:
    made = buffer()
    made.add(1, [success("a"), success("b"), success("a")])
    assert sorted(made.questions(200, rng())) == ["a", "b"]


def test_the_oldest_rollouts_make_room() -> None:
    made = buffer(max_rollouts=3)
    made.add(1, [success("a"), success("b"), success("a"), success("c")])
    assert len(made) == 3
    assert sorted(made.questions(9, rng())) == ["a", "b", "c"]
    made.add(2, [success("d"), success("d")])
    assert sorted(made.questions(9, rng())) == ["c", "d"]


def test_completions_are_bounded_by_bytes() -> None:
    made = buffer(max_bytes=10)
    made.add(1, [failure(name, "ö" * 2) for name in "abcd"])
    assert made.bytes == 8
    assert {one.question_id for one in made.failures(9, rng())} == {"c", "d"}


def test_one_failure_is_kept_however_long_it_is() -> None:
    made = buffer(max_bytes=10)
    made.add(1, [failure("a"), failure("b", "x" * 1000), failure("c", "y" * 500)])
    assert [one.question_id for one in made.failures(9, rng())] == ["c"]
    assert made.bytes == 500


def test_a_completion_may_hold_any_character() -> None:
    made = buffer()
    made.add(1, [failure("a", "\ud800")])
    assert made.bytes == 1


def test_a_million_rollouts_stay_small() -> None:
    made = ReplayBuffer(max_rollouts=1000, max_bytes=5000)
    for step in range(1000):
        made.add(step, [failure(f"{step}-{n % 500}", "x" * 50) for n in range(1000)])
    assert len(made) == 1000
    assert made.bytes <= 5000
    state = made.to_json()
    assert len(state["failures"]) == 100
    assert len(state["questions"]) == 1000
    assert set(made.questions(10_000, rng())) == {f"999-{n}" for n in range(500)}


def test_a_buffer_survives_json() -> None:
    made = buffer(max_rollouts=6)
    made.add(4, [failure("a"), success("b")])
    made.add(7, [success("c"), failure("d", "no"), failure("e", "\ud800")])
    other = buffer(max_rollouts=6)
    other.add(1, [failure("of another run")])
    other.load(json.loads(json.dumps(made.to_json())))
    for one in (made, other):
        one.add(7, [failure("f"), failure("g")])  # still the same step
    assert other.to_json() == made.to_json()
    assert (other.bytes, len(other)) == (made.bytes, len(made))
    assert other.failures(3, rng()) == made.failures(3, rng())
    assert other.questions(3, rng()) == made.questions(3, rng())


def test_questions_that_are_gone_are_forgotten() -> None:
    buffer = ReplayBuffer(max_rollouts=10, max_bytes=1000)
    buffer.add(3, [Experience(name, f"of {name}", 0.0) for name in ("a", "b", "a", "c")])
    buffer.keep_only({"a", "c", "d"})
    assert len(buffer) == 3
    assert sorted(buffer.questions(9, np.random.default_rng(0))) == ["a", "c"]
    kept = buffer.failures(9, np.random.default_rng(0))
    assert sorted(one.completion for one in kept) == ["of a", "of a", "of c"]
    assert buffer.bytes == 12
    buffer.add(3, [Experience("d", "of d", 0.0)])
    assert len(buffer.failures(9, np.random.default_rng(0))) == 4
