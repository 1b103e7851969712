"""Check the other ways to spend GRPO's rollouts: what each samples, discards and learns from."""

from __future__ import annotations

import importlib
import itertools
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from prompt_coevo.types import Assignment, Rollout

NAMES = (
    "dynamic sampling",
    "dynamic sampling, 2 tries",
    "more for the hard",
    "curriculum",
    "replay",
)
Rewards = Callable[[int, int], Sequence[float]]
"""From a question's number and how often it was asked before: its first rewards; the rest are 0."""


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import the driver with the additional world "tiny"."""
    module = importlib.import_module("template_search")
    worlds = importlib.import_module("methods.tabular_world")
    tiny = worlds.Knobs(
        easy=3, medium=2, hard=3, meanings=16, questions=96, rollouts=4_000, batch=16
    )
    monkeypatch.setitem(module.WORLDS, "tiny", tiny)
    yield module
    logging.disable(logging.NOTSET)


class Scripted:
    """A policy with scripted rewards that records what it was asked and what it learned from."""

    def __init__(self, questions: int, rewards: Rewards) -> None:
        self._questions, self._rewards = questions, rewards
        self._asked: Counter[int] = Counter()
        self.sampled: list[list[Rollout]] = []
        self.updates: list[list[list[Rollout]]] = []

    @property
    def learned(self) -> list[list[Rollout]]:
        return list(itertools.chain.from_iterable(self.updates))

    def question_ids(self) -> list[str]:
        return [f"q{number}" for number in range(self._questions)]

    def answer(self, plan: Sequence[Assignment]) -> list[Rollout]:
        (question_id,) = {one.question_id for one in plan}
        number = int(question_id[1:])
        rewards = itertools.chain(self._rewards(number, self._asked[number]), itertools.repeat(0.0))
        self._asked[number] += 1
        self.sampled.append(
            [Rollout(one, "", reward) for one, reward in zip(plan, rewards, strict=False)]
        )
        return list(self.sampled[-1])

    def learn(self, groups: Sequence[Sequence[Rollout]]) -> None:
        self.updates.append([list(group) for group in groups])


def _scripted(search: Any, name: str, rewards: Rewards, **knobs: Any) -> tuple[Scripted, list[int]]:
    changed = replace(search.WORLDS["tiny"], **knobs)
    policy = Scripted(changed.questions, rewards)
    spent = list(search.BASELINES[name](search.Budget(policy, changed, 1)))
    return policy, spent


def _mixed(number: int, before: int) -> list[float]:
    """Return rewards for questions that are never, sometimes and always solved."""
    return [[], [1.0], [1.0] * 99][number % 3]


def _number(group: Sequence[Rollout]) -> int:
    return int(group[0].assignment.question_id[1:])


def test_the_baselines_are_these(search: Any) -> None:
    assert tuple(search.BASELINES) == NAMES
    assert set(NAMES) <= set(search.ARMS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "shape",
    [
        {"group": 6, "batch": 16, "rollouts": 4_000},
        {"group": 5, "batch": 7, "rollouts": 1_001},
        {"group": 2, "batch": 32, "rollouts": 300},
        {"group": 7, "batch": 3, "rollouts": 1},
    ],
)
@pytest.mark.parametrize("rewards", [_mixed, lambda number, before: []])
def test_each_spends_exactly_what_whole_batches_of_grpo_do(
    search: Any, name: str, shape: dict[str, int], rewards: Rewards
) -> None:
    policy, spent = _scripted(search, name, rewards, **shape)
    step = shape["group"] * shape["batch"]
    assert sum(map(len, policy.sampled)) == -(-shape["rollouts"] // step) * step == spent[-1]
    assert spent == sorted(set(spent))
    assert all(len(group) > 1 for group in policy.sampled)  # one rollout alone has no advantage
    assert all(len(groups) > 0 for groups in policy.updates)


def test_no_rollout_is_left_alone(search: Any) -> None:
    knobs = replace(search.WORLDS["tiny"], group=3, batch=3, rollouts=9)
    budget = search.Budget(Scripted(4, _mixed), knobs, 1)
    assert [len(budget.sample("q0", size)) for size in (2, 6)] == [2, 7]
    assert (budget.left, budget.spent) == (0, 9)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_spends_what_grpo_spends(search: Any, name: str) -> None:
    run, bare = (search.run("tiny", arm, 1, 10) for arm in (name, "grpo"))
    assert (run["training"], run["search"]) == (bare["training"], 0)
    assert run["calls"] == 0
    assert run["easy"] == bare["easy"] == 1


def test_dynamic_sampling_learns_from_full_batches_of_groups_that_differ(search: Any) -> None:
    policy, spent = _scripted(search, "dynamic sampling", _mixed)
    assert all({one.reward for one in group} == {0, 1} for group in policy.learned)
    assert {len(groups) for groups in policy.updates[:-1]} == {16}
    ends = list(itertools.accumulate(map(len, policy.sampled)))
    differing = [
        end for end, group in zip(ends, policy.sampled, strict=True) if _number(group) % 3 == 1
    ]
    assert (
        spent[:-1] == differing[15::16][: len(spent) - 1]
    )  # all are paid, and none beyond the last


@pytest.mark.parametrize(("name", "tries"), [("dynamic sampling", 10), (NAMES[1], 2)])
def test_dynamic_sampling_gives_up_and_takes_what_there_is(
    search: Any, name: str, tries: int
) -> None:
    seldom = lambda number, before: [1.0] * (number == 3)  # noqa: E731
    policy, spent = _scripted(search, name, seldom)
    assert np.diff([0, *spent])[:-1].tolist() == [tries * 16 * 6] * (len(spent) - 1)
    assert {_number(group) for group in policy.learned} == {3}
    assert not _scripted(search, name, lambda number, before: [])[0].updates


def test_what_failed_gets_four_times_as_many_rollouts_and_what_was_solved_a_third(
    search: Any,
) -> None:
    policy, spent = _scripted(search, "more for the hard", _mixed)
    sizes = defaultdict(list)
    for group in policy.sampled[:-1]:
        sizes[_number(group)].append(len(group))
    for number, (first, *later) in sizes.items():
        assert (first, set(later) - {(24, 6, 2)[number % 3]}) == (6, set())
    assert policy.sampled == policy.learned
    assert all(96 <= one < 96 + 24 for one in np.diff([0, *spent])[:-1])


def test_a_question_that_changes_is_treated_by_what_it_did_last(search: Any) -> None:
    policy, _ = _scripted(
        search, "more for the hard", lambda number, before: [[], [1.0], [1.0] * 99, []][before % 4]
    )
    own = [len(group) for group in policy.sampled if _number(group) == 0]
    assert own[:4] == [6, 24, 6, 2]


def test_the_curriculum_asks_the_middle_ones_more_often_and_none_twice_in_a_batch(
    search: Any,
) -> None:
    half = lambda number, before: [[], [1.0] * 3, [1.0] * 99][number % 3]  # noqa: E731
    policy, _ = _scripted(search, "curriculum", half, rollouts=20_000)
    for groups in policy.updates:
        assert len({_number(group) for group in groups}) == len(groups) == 16
    asked = Counter(_number(group) % 3 for group in policy.sampled)
    assert asked[1] > 1.8 * max(asked[0], asked[2])
    assert asked[1] < 4 * min(asked[0], asked[2])  # the others are not given up


def test_replay_puts_a_rare_success_into_later_groups_that_fail(search: Any) -> None:
    def rewards(number: int, before: int) -> list[float]:
        rare = number % 3 == 0 and before == 1
        return [0.0, 1.0] if rare else [1.0] * 2 * (before in (1, 3))

    policy, _ = _scripted(search, "replay", rewards)
    visits: dict[int, list[list[Rollout]]] = defaultdict(list)
    for group in policy.learned:
        visits[_number(group)].append(group)
    for number, groups in visits.items():
        kept = [groups[1][1]] if number % 3 == 0 else []  # two successes are not rare
        joined = [group[6:] for group in groups]
        assert joined == [[], [], kept, [], kept, kept, kept]
    assert sum(map(len, policy.sampled)) == 42 * 96  # the replayed ones cost nothing


def test_a_group_that_succeeds_needs_no_replay_and_keeps_the_newest(search: Any) -> None:
    policy, _ = _scripted(
        search, "replay", lambda number, before: [0.0] * before + [1.0] if before < 3 else []
    )
    own = [group for group in policy.learned if _number(group) == 5]
    assert [len(group) for group in own] == [6, 6, 6] + [7] * (len(own) - 3)
    assert own[3][-1] is own[2][2]


@pytest.mark.parametrize(("arm", "most"), [("hints", 1), ("whole hints", 2)])
def test_hints_are_a_part_of_the_answer_that_shrinks_and_is_not_trained_on(
    search: Any, arm: str, most: int
) -> None:
    world = search.world_of("tiny", 10)
    policy, shown = search.TabularPolicy(world, 1), defaultdict(list)
    answer = policy.answer

    def watched(plan: Sequence[Assignment]) -> list[Rollout]:
        rollouts: list[Rollout] = answer(plan)
        for one in plan:
            if one.templated:
                assert one.distilled
                shown[one.question_id].append(one.template.text)
        return rollouts

    policy.answer = watched
    teacher = search.Teacher(policy, world.knobs, "explains", 1)
    list(search._coevolve(search.engine_for(search.ARMS[arm], teacher, 1), policy, world.knobs, 1))
    assert teacher.calls == 0
    for question_id, texts in shown.items():
        solution = policy.question(question_id).columns["solution"]
        assert all(solution.startswith(text) for text in texts)
        assert texts[0].count(".") == most
    assert any(len(texts[-1]) < len(texts[0]) for texts in shown.values())
    assert policy.accuracies()[2] > 0.2 > search.run("tiny", "grpo", 1, 10)["hard"] == 0


def test_rare_words_are_those_of_c_believed_sometimes(search: Any) -> None:
    common = search.world_of("C", 1)
    for name, chances in (("R", [0.003] * 32), ("R, mixed", [0.001, 0.01] * 16)):
        world = search.world_of(name, 1)
        hard = world.kinds == 2
        assert world.knobs == common.knobs
        assert (world.meanings == common.meanings).all()
        assert (world.first_beliefs[~hard] == common.first_beliefs[~hard]).all()
        assert world.first_beliefs.sum(axis=1) == pytest.approx(1)
        own = world.first_beliefs[np.arange(len(hard)), world.meanings][hard]
        assert own == pytest.approx(chances)


def test_an_update_takes_groups_of_any_size_and_a_group_of_equals_moves_nothing(
    search: Any,
) -> None:
    policy = search.TabularPolicy(search.world_of("tiny", 10), 1)
    before = policy.worth("")
    right = policy.question("q0").ground_truth
    wrong = "-".join(str((int(one) + 1) % 16) for one in right.split("-"))

    def group(*rewards: float) -> list[Rollout]:
        texts = [right if reward else wrong for reward in rewards]
        return [
            Rollout(Assignment("q0"), text, reward)
            for text, reward in zip(texts, rewards, strict=True)
        ]

    policy.learn([group(0, 0, 0), group(1, 1)])
    assert policy.worth("") == before
    policy.learn([group(0, 0, 0, 1), group(1, 0)])
    assert policy.worth("") > before
