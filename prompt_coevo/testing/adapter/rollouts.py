"""Laws about generation rounds: the prompt of each rollout, and what the engine is told about it."""

from __future__ import annotations

import math
from collections import Counter

from prompt_coevo.testing.adapter.laboratory import Laboratory
from prompt_coevo.testing.adapter.law import law
from prompt_coevo.testing.adapter.run import Answer, Run
from prompt_coevo.testing.checks import same


@law()
def every_round_is_planned_once(lab: Laboratory) -> None:
    """Every generation round has its own plan, with one group for each of its questions."""
    run, size = lab.main, lab.main.job.group_size
    rounds = {row.number for row in run.sampled("train")}
    same(sorted(run.plan), sorted(rounds), "the host sampled other rounds than were planned")
    for number, plan in run.plan.items():
        places = [(one.group, one.member) for one in plan]
        expected = [(group, member) for group in range(len(plan) // size) for member in range(size)]
        assert places == expected, f"round {number} was planned as {places}"


@law()
def the_plan_is_placed(lab: Laboratory) -> None:
    """Every member of a group is sampled with exactly the prompt that its assignment places."""
    _check_placing(lab.main)


@law()
def every_generated_group_is_observed(lab: Laboratory) -> None:
    """Every generated group is observed with all its members, also if all its rewards are equal or a
    completion reached the length limit."""
    _check_observing(lab.main)
    _check_observing(lab.judged)


@law()
def rewards_belong_to_their_member(lab: Laboratory) -> None:
    """The completion and reward of an assignment come from the row that was sampled under it, in whatever
    order rows finish."""
    _check_attribution(lab.main)


@law("late rollouts")
def late_rollouts_keep_their_assignment(lab: Laboratory) -> None:
    """A round that comes back after the next one was sampled is attributed as planned."""
    _check_observing(lab.late)
    _check_attribution(lab.late)


@law("rollouts in parts")
def groups_in_parts_keep_their_assignment(lab: Laboratory) -> None:
    """A group that comes back shuffled and in parts is attributed as planned."""
    _check_observing(lab.in_parts)
    _check_attribution(lab.in_parts)


@law("rewards of none")
def a_rollout_without_a_reward_is_unfit(lab: Laboratory) -> None:
    """A completion without a reward is observed with a status other than ok, and one with reward 0 as
    ok."""
    for answer in lab.judged.observed:
        expected, fit = lab.judged.reward(answer), answer.status == "ok"
        assert fit == (expected is not None), (
            f"a completion whose reward is {expected} was observed as {answer.status}"
        )
        assert not fit or answer.reward == expected, f"{expected} was observed as {answer.reward}"


@law()
def rewards_see_the_questions_own_prompt(lab: Laboratory) -> None:
    """Reward functions get the dataset's prompt, never the placed one."""
    scored = lab.main.record.scored
    assert scored, "the record holds no call of the reward function"
    for call in scored:
        own = lab.main.prompt(call.question_id)
        assert call.prompt == own, f"the reward was given {call.prompt!r} instead of {own!r}"


@law("ranks")
def ranks_have_one_engine_and_one_plan(lab: Laboratory) -> None:
    """With several processes there is one engine, all processes follow its plan, and their weights stay
    equal."""
    run = lab.on_two_ranks
    assert run.record.engines == 1, f"{run.record.engines} processes built an engine"
    check_equal_ranks(run)
    _check_placing(run)
    _check_observing(run)
    _check_attribution(run)


def check_equal_ranks(run: Run) -> None:
    """Check that all processes end with the same weights."""
    weights = set(run.record.rank_weights)
    assert len(weights) == 1, f"the ranks ended with {len(weights)} different weights"


def check_reward(run: Run, answer: Answer) -> None:
    """Check that the reward is the reward function's value for this question and text."""
    expected, found = run.reward(answer), answer.reward
    right = expected is found  # None
    if expected is not None and found is not None:
        right = math.isclose(expected, found, abs_tol=1e-6)
    assert right, (
        f"{answer.text!r} is worth {expected} for question {answer.assignment.question_id}, but "
        f"came with {found}"
    )


def _check_placing(run: Run) -> None:
    """Check that every round was sampled with the prompts of its plan."""
    assert run.plan, "nothing was planned"
    for number, plan in run.plan.items():
        expected = Counter(map(run.placed, plan))
        found = Counter(tuple(row.prompt_ids) for row in run.sampled("train", number))
        assert found == expected, (
            f"{(found - expected).total()} of the {len(plan)} rows of round {number} were sampled "
            "with a prompt that the plan does not place"
        )


def _check_observing(run: Run) -> None:
    """Check that each planned assignment came back once."""
    expected = [assignment for plan in run.plan.values() for assignment in plan]
    found = [answer.assignment for answer in run.observed]
    missing = [one.question_id for one in expected if one not in found]
    assert not missing, (
        f"{len(missing)} of {len(expected)} rollouts were never observed, the first of question "
        f"{missing[0]}"
    )
    assert len(found) == len(expected), f"{len(found)} rollouts observed, {len(expected)} planned"


def _check_attribution(run: Run) -> None:
    """Check that each answer was sampled under its assignment and has the reward of its text."""
    sampled = {(row.number, tuple(row.prompt_ids), row.text) for row in run.sampled("train")}
    for answer in run.observed:
        where = answer.assignment
        assert (where.round, run.placed(where), answer.text) in sampled, (
            f"member {where.member} of question {where.question_id} is credited with {answer.text!r}, "
            "which nobody sampled under its prompt"
        )
        check_reward(run, answer)
