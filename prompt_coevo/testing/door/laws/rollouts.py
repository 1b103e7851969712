"""Generation rounds: what runs under what, and what the engine hears of it."""

from __future__ import annotations

import math
from collections import Counter

from prompt_coevo.testing.door.laboratory import Laboratory
from prompt_coevo.testing.door.laws.law import law
from prompt_coevo.testing.door.run import Answer, Run, expect


@law()
def every_round_is_planned_once(laboratory: Laboratory) -> None:
    """Every generation round has a plan of its own, with one group for each of its questions."""
    run = laboratory.main
    rounds = {row.number for row in run.sampled("train")}
    expect(
        set(run.plan) == rounds,
        f"the host sampled the rounds {sorted(rounds)}, but {sorted(run.plan)} were planned",
    )
    for number, plan in run.plan.items():
        places = [(one.group, one.member) for one in plan]
        size = run.job.group_size
        groups = len(places) // size
        expected = [(group, member) for group in range(groups) for member in range(size)]
        expect(places == expected, f"round {number} was planned as {places}")


@law()
def the_plan_is_placed(laboratory: Laboratory) -> None:
    """Every member of a group is sampled with exactly the prompt that its assignment places."""
    check_placing(laboratory.main)


@law()
def every_generated_group_is_observed(laboratory: Laboratory) -> None:
    """Every group that was generated is observed with all its members, also one whose rewards are all
    equal and one with completions that reached the length limit."""
    for run in (laboratory.main, laboratory.judged):
        check_observing(run)


@law()
def rewards_belong_to_their_member(laboratory: Laboratory) -> None:
    """The completion and the reward of an assignment are those of the row that ran under it, in
    whatever order rows finish."""
    check_attribution(laboratory.main)


@law("late rollouts")
def late_rollouts_keep_their_assignment(laboratory: Laboratory) -> None:
    """A round that comes back after the next one was sampled is attributed as it was planned."""
    check_observing(laboratory.late)
    check_attribution(laboratory.late)


@law("rollouts in parts")
def groups_in_parts_keep_their_assignment(laboratory: Laboratory) -> None:
    """A group that comes back in parts, shuffled, is attributed as it was planned."""
    check_observing(laboratory.in_parts)
    check_attribution(laboratory.in_parts)


@law("rewards of none")
def a_rollout_without_a_reward_is_unfit(laboratory: Laboratory) -> None:
    """A completion without a reward is observed with another status than ok, and a failure with ok."""
    run = laboratory.judged
    for answer in run.observed:
        expected = run.reward(answer)
        fit = answer.status == "ok"
        expect(
            fit == (expected is not None),
            f"a completion whose reward is {expected} was observed as {answer.status}",
        )
        expect(not fit or answer.reward == expected, f"{expected} was observed as {answer.reward}")


@law()
def rewards_see_the_questions_own_prompt(laboratory: Laboratory) -> None:
    """Reward functions are given the dataset's prompt, never the placed one."""
    run = laboratory.main
    expect(bool(run.record.scored), "the record holds no call of the reward function")
    for call in run.record.scored:
        own = run.prompt(call.question_id)
        expect(
            call.prompt == own,
            f"the reward function was given {call.prompt!r} instead of {own!r}",
        )


@law("ranks")
def ranks_have_one_engine_and_one_plan(laboratory: Laboratory) -> None:
    """With several processes there is one engine, all follow its plan, and their weights stay equal."""
    run = laboratory.on_two_ranks
    expect(run.record.engines == 1, f"{run.record.engines} processes built an engine")
    weights = set(run.record.rank_weights)
    expect(len(weights) == 1, f"the ranks ended with {len(weights)} different weights")
    check_placing(run)
    check_observing(run)
    check_attribution(run)


def check_placing(run: Run) -> None:
    """The prompts of every round are those of its plan."""
    expect(bool(run.plan), "nothing was planned")
    for number, plan in run.plan.items():
        expected = Counter(run.placed(assignment) for assignment in plan)
        found = Counter(tuple(row.prompt_ids) for row in run.sampled("train", number))
        wrong = sum((found - expected).values())
        expect(
            found == expected,
            f"{wrong} of the {len(plan)} rows of round {number} were sampled with a prompt that the "
            "plan does not place",
        )


def check_observing(run: Run) -> None:
    """Each planned assignment came back, once."""
    expected = [assignment for plan in run.plan.values() for assignment in plan]
    found = [answer.assignment for answer in run.observed]
    missing = [one for one in expected if one not in found]
    expect(
        not missing,
        f"{len(missing)} of {len(expected)} rollouts were never observed, the first of question "
        f"{missing[0].question_id if missing else None}",
    )
    expect(len(found) == len(expected), f"{len(found)} rollouts observed, {len(expected)} planned")


def check_attribution(run: Run) -> None:
    """Each answer was sampled under its assignment, and has the reward of its text."""
    sampled = {(row.number, tuple(row.prompt_ids), row.text) for row in run.sampled("train")}
    for answer in run.observed:
        where = answer.assignment
        expect(
            (where.round, run.placed(where), answer.text) in sampled,
            f"member {where.member} of question {where.question_id} is credited with {answer.text!r}, "
            "which nobody sampled under its prompt",
        )
        check_reward(run, answer)


def check_reward(run: Run, answer: Answer) -> None:
    """The reward is what the reward function says of this question and text."""
    expected = run.reward(answer)
    expect(
        expected == answer.reward
        or (
            expected is not None
            and answer.reward is not None
            and math.isclose(expected, answer.reward, abs_tol=1e-6)
        ),
        f"{answer.text!r} is worth {expected} for question {answer.assignment.question_id}, but "
        f"came with {answer.reward}",
    )
