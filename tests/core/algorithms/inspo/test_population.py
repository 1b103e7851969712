"""Check weights, selection and pruning by hand: INSPO eqs. 4 and 6, Algorithm 1 lines 9 to 17 and 26."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompt_coevo.algorithms.inspo.population import Population
from prompt_coevo.errors import SettingsError
from prompt_coevo.types import Candidate, PolicyVersion


def member(name: str) -> Candidate:
    return Candidate(name, "instruction")


def population(*weights: float, **settings: Any) -> Population:
    """Build a population of instructions with these weights, named 0, 1, ... by age, each seen once."""
    made = Population([member(str(n)) for n in range(len(weights))], **settings)
    made.observe({member(str(n)).id: weight for n, weight in enumerate(weights)})
    return made


def names(instructions: Any) -> list[str]:
    return [instruction.text for instruction in instructions]


def window_of(made: Population, name: str) -> list[float]:
    (entry,) = [e for e in made.to_json() if e["instruction"]["text"] == name]
    return entry["window"]  # type: ignore[no-any-return]


# Selection


def test_selection_by_hand() -> None:
    # At τ = 0.2 the weights 0, 0.2 and 0.4 become e^0 : e^1 : e^2.
    chances = population(0.0, 0.2, 0.4, temperature=0.2).probabilities()
    assert list(chances.values()) == pytest.approx([0.09003057, 0.24472847, 0.66524096])
    assert list(chances) == [member(name).id for name in "012"]


def test_a_temperature_by_hand() -> None:
    assert list(population(0.0, 1.0, temperature=1.0).probabilities().values()) == pytest.approx(
        [0.26894142, 0.73105858]
    )


@pytest.mark.parametrize("weight", [0.0, 0.3, -2.0, 1e6])
def test_equal_weights_are_equally_likely(weight: float) -> None:
    chances = population(*[weight] * 7).probabilities()
    assert list(chances.values()) == pytest.approx([1 / 7] * 7)


def test_huge_weights_do_not_overflow() -> None:
    chances = list(population(1e6, 1e6, -1e6).probabilities().values())
    assert chances == pytest.approx([0.5, 0.5, 0.0])


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), st.floats(0.01, 10))
def test_chances_sum_to_one_and_are_ordered_as_the_weights(
    weights: list[float], temperature: float
) -> None:
    chances = list(population(*weights, temperature=temperature).probabilities().values())
    assert math.fsum(chances) == pytest.approx(1)
    by_weight = [chance for _, chance in sorted(zip(weights, chances, strict=True))]
    assert by_weight == sorted(by_weight)


# Weights


def test_a_weight_is_the_mean_of_the_entries_seen() -> None:
    made = Population([member("a")], window=5)
    for mean in (1.0, 0.0, 0.5):
        made.observe({member("a").id: mean})
    assert made.weight(member("a").id) == 0.5


def test_only_the_last_entries_count() -> None:
    made = Population([member("a")], window=3)
    for mean in (1.0, 1.0, 0.0, 0.3, 0.6):
        made.observe({member("a").id: mean})
    assert window_of(made, "a") == [0.0, 0.3, 0.6]
    assert made.weight(member("a").id) == pytest.approx(0.3)


def test_an_instruction_that_was_not_sampled_keeps_its_window() -> None:
    made = population(0.5, 0.5)
    made.observe({member("0").id: 1.0})
    assert (window_of(made, "0"), window_of(made, "1")) == ([0.5, 1.0], [0.5])


@pytest.mark.parametrize("mean", [math.nan, math.inf, -math.inf])
def test_a_mean_that_is_not_finite_is_passed_over(mean: float) -> None:
    made = population(0.5)
    made.observe({member("0").id: mean})
    assert window_of(made, "0") == [0.5]


def test_what_has_left_is_passed_over() -> None:
    made = population(0.1, 0.9)
    made.prune()
    made.observe({member("0").id: 1.0, member("1").id: 0.5})
    assert names(made.members) == ["1"]
    assert made.weight(member("1").id) == pytest.approx(0.7)


def test_a_child_weighs_its_prior_until_its_first_entry() -> None:
    made = population(0.4)
    made.add(member("child"), prior=0.55)
    child = member("child").id
    assert not made.seen(child)
    assert made.weight(child) == 0.55
    made.observe({child: 0.1})
    assert made.seen(child)
    assert made.weight(child) == 0.1


# Pruning


def test_seven_four_two_one() -> None:
    made = population(0.1, 0.7, 0.3, 0.6, 0.2, 0.5, 0.4)
    assert names(made.prune()) == ["2", "4", "0"]
    assert names(made.members) == ["1", "3", "5", "6"]
    assert names(made.prune()) == ["5", "6"]
    assert names(made.prune()) == ["3"]
    assert made.prune() == []
    assert names(made.members) == ["1"]


def test_a_pruned_population_grows_again_and_is_pruned_again() -> None:
    made = population(*(n / 10 for n in range(7)))
    while made.prune():
        pass
    for n in range(7, 13):
        made.add(member(str(n)), prior=0.5)
    assert len(made) == 7
    made.observe({member(str(n)).id: n / 100 for n in range(7, 13)})
    assert names(made.prune()) == ["9", "8", "7"]
    assert names(made.members) == ["6", "10", "11", "12"]


@pytest.mark.parametrize(
    ("size", "parents", "left"),
    [(5, 3, 3), (7, 3, 4), (4, 3, 3), (3, 3, 3), (2, 3, 2), (5, 1, 3), (2, 1, 1), (1, 1, 1)],
)
def test_at_least_the_parents_are_left(size: int, parents: int, left: int) -> None:
    made = population(*(n / 10 for n in range(size)), parents=parents)
    made.prune()
    assert len(made) == left


def test_on_a_tie_the_older_one_stays() -> None:
    made = population(0.5, 0.5, 0.5, 0.5)
    assert names(made.prune()) == ["2", "3"]
    assert names(made.parents()) == ["0"]
    best = made.best()
    assert best is not None
    assert best.text == "0"


def test_nobody_is_pruned_before_it_was_sampled() -> None:
    made = Population([member(name) for name in "abcd"])
    made.observe({member("a").id: 0.9, member("b").id: 0.1})
    # Unseen ones weigh 0, so c and d are the worse half; b is in the better one.
    assert made.prune() == []
    made.observe({member("c").id: 0.0})
    assert names(made.prune()) == ["c"]


def test_pruning_the_unsampled_is_a_choice() -> None:
    made = Population([member(name) for name in "abcd"], prune_unsampled=True)
    made.observe({member("a").id: 0.9, member("b").id: 0.1})
    assert names(made.prune()) == ["c", "d"]


@given(
    st.lists(st.none() | st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=12),
    st.integers(1, 5),
    st.booleans(),
)
def test_pruning_drops_at_most_half_and_nobody_that_is_better(
    weights: list[float | None], parents: int, prune_unsampled: bool
) -> None:
    made = Population(
        [member(str(n)) for n in range(len(weights))],
        parents=parents,
        prune_unsampled=prune_unsampled,
    )
    made.observe({member(str(n)).id: w for n, w in enumerate(weights) if w is not None})
    before = {one.id: made.weight(one.id) for one in made.members}
    seen = {one.id for one in made.members if made.seen(one.id)}
    removed = made.prune()
    assert len(removed) <= len(weights) // 2
    assert len(made) >= min(parents, len(weights))
    if prune_unsampled:
        assert len(removed) == min(len(weights) // 2, max(0, len(weights) - parents))
        assert {one.id for one in removed} | {one.id for one in made.members} == set(before)
    else:
        assert {one.id for one in removed} <= seen
    for gone in removed:
        assert all(before[gone.id] <= made.weight(one.id) for one in made.members if one.id in seen)


# The chosen ones


def test_parents_are_the_best_and_may_be_unseen() -> None:
    made = population(0.2, 0.8, 0.5, parents=3)
    made.add(member("child"), prior=0.6)
    assert names(made.parents()) == ["1", "child", "2"]


def test_there_are_no_more_parents_than_instructions() -> None:
    assert names(population(0.2, 0.8, parents=5).parents()) == ["1", "0"]


def test_the_best_is_among_those_that_were_measured() -> None:
    made = Population([member("a"), member("b")])
    assert made.best() is None
    made.add(member("promising"), prior=9.0)
    made.observe({member("b").id: -0.5})
    best = made.best()
    assert best is not None
    assert best.text == "b"


def test_all_others_can_be_dropped() -> None:
    made = population(0.1, 0.2, 0.3)
    assert names(made.keep_only([member("1").id, "somebody"])) == ["0", "2"]
    assert member("1").id in made
    assert member("0").id not in made
    assert made.members == (member("1"),)


# Bad input and state


def test_an_empty_population_and_a_double_instruction_are_refused() -> None:
    with pytest.raises(SettingsError, match="at least one instruction"):
        Population([])
    with pytest.raises(SettingsError, match="twice in the population: 'a'"):
        Population([member("a"), member("b"), member("a")])


def test_a_population_survives_json() -> None:
    made = population(0.1, 0.9, 0.4, window=2, parents=2)
    made.observe({member("0").id: 0.5})
    child = Candidate("child", "instruction", "reflection", (member("0").id,), PolicyVersion(1, 15))
    made.add(child, prior=0.7)
    other = Population([member("someone else")], window=2, parents=2)
    other.load(json.loads(json.dumps(made.to_json())))
    assert other.members == made.members
    assert other.probabilities() == made.probabilities()
    assert not other.seen(child.id)
    for one in (made, other):
        one.observe({member("0").id: 0.0})
    assert other.to_json() == made.to_json()
    assert other.prune() == made.prune()
