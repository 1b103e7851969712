"""Candidates on trial in training's own groups. An instruction is worth what a table says.

With three candidates, one parent and the default share, eight groups are a block; most runs here have
eight groups in a step. The evolution is at step 2, so the trial begins with step 3.
"""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from helpers.inspo_run import Run, decisions, tagged, teacher, worth
from prompt_coevo import Settings, hookimpl, hookspecs
from prompt_coevo.algorithms.inspo import METHOD
from prompt_coevo.algorithms.inspo.evolution import Evolution
from prompt_coevo.algorithms.inspo.in_training import TrainingTrial
from prompt_coevo.algorithms.inspo.known_means import KnownMeans
from prompt_coevo.algorithms.inspo.settings import InspoSettings
from prompt_coevo.engine.state import plugin_states
from prompt_coevo.errors import SettingsError
from prompt_coevo.settings.method import Cost, Workload
from prompt_coevo.types import Assignment, Candidate, Group, MemberPlan, Rollout

TABLE = {"start": 0.5, "good": 0.75, "fair": 0.5, "bad": 0.25}
CHILDREN = ("good", "bad", "fair")


@pytest.fixture
def trial(start: Any) -> Callable[..., Run]:
    """A run of which three candidates are written at step 2, and none before or after."""

    def begin(
        texts: Sequence[str] = CHILDREN, judge: Any = None, *, warm: bool = True, **changes: Any
    ) -> Run:
        inspo = {
            "verify": "in_training",
            "evolve_every": 2,
            "evolve_until": 3,
            "rounds": 1,
            "verify_size": 2,
            "prune_every": 1000,
            **changes,
        }
        reply = inspo.pop("reply", lambda prompt: tagged(texts))
        run: Run = start(reply, judge or worth(TABLE), questions=8, **inspo)
        if warm:
            run.steps(2)
        return run

    return begin


def texts(assignments: Sequence[Assignment]) -> list[str]:
    return [one.instruction.text for one in assignments if one.instruction]


def accepted(run: Run) -> dict[float, bool]:
    """Verdicts by the candidate's mean reward."""
    return {
        sum(event["rewards"]) / len(event["rewards"]): event["accepted"]
        for event in run.events("candidate_verified")
        if event["rewards"]
    }


# The verdict


def test_what_does_at_least_as_well_in_training_joins(trial: Any) -> None:
    run = trial()
    assert run.population == ["start"]
    run.steps(2)
    assert run.population == ["start", "good", "fair"]
    assert accepted(run) == {0.75: True, 0.25: False, 0.5: True}
    assert run.prior("good") == pytest.approx(0.75)
    assert run.prior("fair") == pytest.approx(0.5)
    assert run.window("good") == run.window("fair") == []


def test_it_costs_no_rollout_outside_the_batch(trial: Any) -> None:
    run = trial()
    run.steps(6)
    assert run.policy.batches == []
    assert run.metric("verify_rollouts") == 0
    assert run.metric("trial_rollouts") == 3 * 2


def test_the_estimate_counts_calls_and_no_rollouts() -> None:
    def cost(**section: Any) -> Cost:
        return METHOD.estimate(InspoSettings(**section), Workload(512, 5))

    assert cost(verify="in_training").rollouts == 0
    assert cost(verify="in_training").calls == cost().calls == 45
    assert cost().rollouts == 9 * (5 * 6 + 1) * 200


def test_only_the_top_join_best_first(trial: Any) -> None:
    run = trial(["fair", "good", "bad"], top_n=1)
    run.steps(2)
    assert run.population == ["start", "good"]


def test_a_stranger_may_decide_by_the_same_trials(trial: Any) -> None:
    seen: list[Any] = []

    class Stranger:
        @hookimpl
        def coevo_verify(self, algorithm: str, trials: Any) -> list[bool]:
            seen.extend(trials)
            return [trial.child.text == "bad" for trial in trials]

    run = trial(plugins={"stranger": Stranger()})
    run.steps(2)
    assert run.population == ["start", "bad"]
    assert {one.child.text: one.gain for one in seen} == {"good": 0.25, "bad": -0.25, "fair": 0.0}


def test_a_stranger_that_fails_costs_the_round_and_not_the_training(trial: Any) -> None:
    class Stranger:
        @hookimpl
        def coevo_verify(self, algorithm: str, trials: Any) -> list[bool]:
            raise RuntimeError("no idea")

    run = trial(plugins={"stranger": Stranger()})
    run.steps(4)
    assert run.population[0] == "start"
    assert "bad" not in run.population
    assert run.state["schedule"]["trial"] is None


@pytest.mark.parametrize(("size", "verify_size", "steps"), [(1, 3, 3), (2, 3, 2), (4, 3, 1)])
def test_the_verdict_falls_when_every_candidate_has_its_rollouts(
    trial: Any, size: int, verify_size: int, steps: int
) -> None:
    """One group of each in a step."""
    run = trial(verify_size=verify_size, evolve_every=5, evolve_until=6, warm=False)
    run.steps(5, size=size)
    for _ in range(steps):
        assert run.events("candidate_verified") == []
        run.step(size=size)
    assert len(run.events("candidate_verified")) == 3


def test_one_candidate_without_evidence_keeps_the_others_waiting(trial: Any) -> None:
    run = trial(verify_size=1, evolve_every=4, evolve_until=5, warm=False)
    run.steps(4)
    lost = run.judge

    def judge(assignment: Assignment) -> float:
        return float("nan") if assignment.instruction.text == "fair" else lost(assignment)

    run.judge = judge
    run.steps(3)
    assert run.population == ["start"]
    run.judge = lost
    run.step()
    assert run.population == ["start", "good", "fair"]


def test_without_evidence_nobody_joins_and_the_trial_ends(trial: Any) -> None:
    run = trial(trial_steps=2)
    run.judge = lambda assignment: float("nan")
    run.step()
    assert run.state["schedule"]["trial"] is not None
    run.step()
    assert run.state["schedule"]["trial"] is None
    assert run.population == ["start"]
    assert [(e["accepted"], e["rewards"]) for e in run.events("candidate_verified")] == [
        (False, [])
    ] * 3
    run.judge = worth(TABLE)
    run.step()
    assert set(texts(run.plans[-1])) == {"start"}


def test_a_candidate_is_judged_by_what_there_is_when_time_is_up(trial: Any) -> None:
    run = trial(verify_size=1000, trial_steps=2)
    run.steps(2)
    assert run.population == ["start", "good", "fair"]
    assert [len(e["rewards"]) for e in run.events("candidate_verified")] == [2, 2, 2]


@pytest.mark.parametrize("steps", [1, 3])
def test_an_update_on_an_old_round_is_no_step_of_a_trial(trial: Any, steps: int) -> None:
    run = trial(verify_size=1000, trial_steps=2)
    run.step()
    for _ in range(steps):
        run.engine.step_end(run.policy)
    assert run.state["schedule"]["trial"]["updates_left"] == 1


def test_nothing_is_on_trial_if_no_candidate_passed_the_gates(trial: Any) -> None:
    run = trial(["start", "start"])
    assert run.state["schedule"]["trial"] is None
    run.step()
    assert set(texts(run.plans[-1])) == {"start"}


# The comparison


def test_a_policy_that_improves_gives_nobody_an_edge(trial: Any) -> None:
    """Every step is worth more than the whole difference between two instructions."""
    run = trial(verify_size=5, evolve_every=5, evolve_until=6, warm=False)
    run.judge = lambda one: TABLE[one.instruction.text] + one.round
    run.steps(10)
    events = run.events("candidate_verified")
    gains = [sum(e["rewards"]) - sum(e["parent_rewards"]) for e in events]
    assert gains == [5 * 0.25, 5 * -0.25, 0.0]


def test_a_trial_takes_its_share_of_the_groups_and_gives_every_candidate_as_many(
    trial: Any,
) -> None:
    run = trial()
    plan = run.engine.plan(["q1"] * 800, 1)
    blocks = [texts(plan[place : place + 8]) for place in range(0, 800, 8)]
    assert {tuple(sorted(Counter(block).items())) for block in blocks} == {
        (("bad", 1), ("fair", 1), ("good", 1), ("start", 5))
    }
    places = Counter(block.index("good") for block in blocks)
    assert len(places) == 8
    assert max(places.values()) < 30


@pytest.mark.parametrize(("share", "candidates"), [(1.0, 30), (0.5, 15), (0.25, 7.5)])
def test_the_share_is_a_setting(trial: Any, share: float, candidates: float) -> None:
    run = trial(trial_share=share)
    drawn = Counter(texts(run.engine.plan(["q1"] * 120, 1)))
    assert all(abs(drawn[child] - candidates) <= 1 for child in CHILDREN)
    if share == 1.0:
        assert drawn["start"] == 30


def test_a_whole_group_has_one_instruction(trial: Any) -> None:
    plan = trial().engine.plan(["q1"] * 80, 4)
    groups = [texts(plan[place : place + 4]) for place in range(0, 320, 4)]
    assert all(len(set(group)) == 1 for group in groups)
    assert {group[0] for group in groups} == {"start", *CHILDREN}


def test_rounds_of_one_group_are_enough(trial: Any) -> None:
    run = trial(verify_size=1000, trial_steps=16, evolve_every=20, evolve_until=21, warm=False)
    run.steps(20, groups=1)
    run.steps(16, groups=1)
    assert run.population == ["start", "good", "fair"]
    assert Counter(one for plan in run.plans[20:36] for one in texts(plan)) == Counter(
        {"start": 10, **dict.fromkeys(CHILDREN, 2)}
    )


def test_a_block_without_the_parent_is_no_evidence(trial: Any) -> None:
    run = trial(verify_size=1, trial_steps=1)
    judge = worth(TABLE)
    run.judge = lambda one: float("nan") if one.instruction.text == "start" else judge(one)
    run.step()
    assert run.population == ["start"]
    assert [event["rewards"] for event in run.events("candidate_verified")] == [[], [], []]


def begun(children: int = 2, share: float = 1.0) -> TrainingTrial:
    parent = Candidate("parent", "instruction")
    evolution = Evolution(0, (parent,), {parent.id: 0.5}, round=1)
    candidates = [Candidate(f"child {n}", "instruction") for n in range(children)]
    return TrainingTrial.begin(evolution, parent, candidates, share, 5)


def group_of(
    trial: TrainingTrial, number: int, rewards: Sequence[float], template: str = ""
) -> Group:
    """The group of round 0 with this number, as the trial plans it."""
    instruction = trial.plan(0, 0, number)
    used = Candidate(template, "template") if template else None
    return Group(
        f"q{number}",
        tuple(
            Rollout(Assignment(f"q{number}", 0, number, n, instruction, used), "", reward)
            for n, reward in enumerate(rewards)
        ),
    )


def test_a_group_counts_once_however_many_rollouts_it_has() -> None:
    trial = begun(children=1)
    groups = [group_of(trial, number, [0.0]) for number in range(4)]
    is_child = [trial.tries(group.rollouts[0].assignment.instruction) for group in groups]
    first, second = [number for number, child in enumerate(is_child) if child]
    groups[first] = group_of(trial, first, [1.0, 1.0, 1.0, 1.0, 0.0])
    groups[second] = group_of(trial, second, [0.0])
    trial.observe(groups, KnownMeans())
    (result,) = trial.results()
    assert result.child_rewards == (pytest.approx(0.8), 0.0)
    assert result.question_ids == (f"q{first}", f"q{second}")
    assert trial.has(6)
    assert not trial.has(7)


def test_the_parent_is_the_mean_of_all_its_groups_in_the_block() -> None:
    trial = begun(children=1, share=0.5)
    parent = trial.parent
    groups = []
    for number in range(4):
        planned = trial.plan(0, 0, number) or parent  # the population draws the parent, too
        reward = 1.0 if planned is not parent else number / 8
        rollout = Rollout(Assignment(f"q{number}", 0, number, 0, planned), "", reward)
        groups.append(Group(f"q{number}", (rollout,)))
    trial.observe(groups, KnownMeans())
    (result,) = trial.results()
    own = [group.rollouts[0].reward for group in groups if group.rollouts[0].reward < 1.0]
    assert len(own) == 3
    assert result.parent_rewards == (pytest.approx(sum(own) / 3),)


def test_templated_rollouts_are_no_evidence() -> None:
    trial = begun()
    trial.observe([group_of(trial, number, [1.0], "a hint") for number in range(30)], KnownMeans())
    assert not trial.has(1)
    trial.observe([group_of(trial, number, [1.0]) for number in range(3)], KnownMeans())
    assert trial.has(1)


def gains(true_gain: float, *, seen_before: bool, share: float) -> list[float]:
    """Of fifty trials of thirty blocks, among questions that are solved always or never."""
    found = []
    for seed in range(50):
        rng = random.Random(seed)
        trial, known = begun(children=1, share=share), KnownMeans()
        solved = [float(rng.random() < 0.5) for _ in range(30 * trial.block)]
        if seen_before:
            for number, reward in enumerate(solved):
                rollout = Rollout(Assignment(f"q{number}", -1, number), "", reward)
                known.observe([Group(f"q{number}", (rollout,))])
            known.commit()
        for number, reward in enumerate(solved):
            planned = trial.plan(seed, 0, number) or trial.parent
            drift = number / len(solved)
            gained = true_gain if planned is not trial.parent else 0.0
            where = Assignment(f"q{number}", 0, number, 0, planned)
            outcome = Rollout(where, "", reward + drift + gained)
            trial.observe([Group(f"q{number}", (outcome,))], known)
        (result,) = trial.results()
        found.append(result.gain)
    return found


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("true_gain", [0.0, 0.2])
def test_measured_gains_are_true_on_average_and_sharp_where_questions_are_known(
    true_gain: float, share: float
) -> None:
    blind = gains(true_gain, seen_before=False, share=share)
    seeing = gains(true_gain, seen_before=True, share=share)
    assert statistics.stdev(blind) > 0.08
    assert statistics.stdev(seeing) < 0.02
    for found in (blind, seeing):
        error = statistics.stdev(found) / len(found) ** 0.5
        assert abs(statistics.mean(found) - true_gain) < 3 * error


def test_a_trial_survives_its_state_at_any_moment() -> None:
    trial, known = begun(children=3, share=0.7), KnownMeans()
    for number in range(40):
        trial.observe([group_of(trial, number, [number % 3, number % 2])], known)
        known.commit()
        again = TrainingTrial.from_json(trial.to_json())
        assert again == trial
        assert again.results() == trial.results()


# What it must not touch


def test_before_the_verdict_a_candidate_is_nobody(trial: Any) -> None:
    """Neither weighed, pruned, best, nor what an evaluation runs under."""
    run = trial(verify_size=100, prune_every=1, prune_unsampled=True, trial_steps=2)
    run.step()
    assert set(texts(run.plans[-1])) == {"start", *CHILDREN}
    assert run.population == ["start"]
    assert run.window("start") == [0.5, 0.5, 0.5]
    assert run.engine.evaluation_instruction().text == "start"
    assert run.metric("best_instruction_weight") == 0.5
    assert run.metric("population") == 1
    assert [event["weights"] for event in run.events("instruction_weights")] == [
        {Candidate("start", "instruction").id: 0.5}
    ] * 3
    assert (run.folder / "coevo/best_instruction.txt").read_text("utf-8") == "start"
    run.step()
    assert run.engine.evaluation_instruction().text == "start"


def test_windows_of_others_are_what_they_would_be(trial: Any) -> None:
    table = {**TABLE, "other": 0.25, "good": 100.0, "bad": -100.0}
    run = trial(judge=worth(table), initial_population=("start", "other"), verify_size=100)
    run.step()
    assert set(run.window("start")) == {0.5}
    assert set(run.window("other")) <= {0.25}


def test_failures_under_a_candidate_are_not_reflected_upon(trial: Any) -> None:
    run = trial(verify_size=100)
    run.step()
    candidates = [one for one in run.plans[-1] if one.instruction.text in CHILDREN]
    assert len(candidates) == 3
    state = run.state["buffer"]
    assert len(state["questions"]) == len(state["failures"]) + 16 == 3 * 8 - 3
    assert not {one.question_id for one in candidates} & {name for name, *_ in state["failures"]}


def test_what_was_refused_is_never_planned_again(trial: Any) -> None:
    run = trial()
    run.steps(2)
    run.steps(5)
    assert {one for plan in run.plans[4:] for one in texts(plan)} == {"start", "good", "fair"}


def test_the_history_knows_what_was_tried(trial: Any) -> None:
    run = trial()
    run.steps(2)
    assert dict(run.state["history"]) == {"start": 0.5, "good": 0.75, "bad": 0.25, "fair": 0.5}


def test_a_parent_that_was_pruned_meanwhile_stays_the_yardstick(trial: Any) -> None:
    table = {**TABLE, "other": 0.25}
    run = trial(
        judge=worth(table),
        initial_population=("start", "other"),
        prune_every=6,
        window=1,
        verify_size=4,
        evolve_every=4,
        evolve_until=5,
        warm=False,
        selection_temperature=10.0,
    )
    run.steps(5)
    run.judge = worth({**table, "other": 2.0})
    run.step()
    assert run.population == ["other"]
    run.judge = worth(table)
    run.steps(2)
    assert run.population == ["other", "good", "fair"]
    assert "start" in texts(run.plans[-1])
    assert run.prior("good") == pytest.approx(0.5 + 0.25)


def test_rewards_may_be_negative(trial: Any) -> None:
    run = trial(judge=worth({"start": -2.0, "good": -1.0, "fair": -2.0, "bad": -3.0}))
    run.steps(2)
    assert run.population == ["start", "good", "fair"]


# Rounds and evolutions


def numbered(run_texts: str = "try") -> Callable[[str], str]:
    calls = count(1)
    return lambda prompt: tagged([f"{run_texts} {next(calls)}"])


def test_rounds_follow_each_other(trial: Any) -> None:
    """A block is four groups, so that a step gives one candidate two rollouts."""
    table = {"start": 0.5, **{f"try {n}": 0.6 for n in range(1, 9)}}
    run = trial(
        judge=worth(table), reply=numbered(), rounds=3, evolve_every=6, evolve_until=7, warm=False
    )
    run.steps(6)
    sizes = []
    for _ in range(4):
        run.step()
        sizes.append(len(run.population))
    assert [event["step"] for event in run.events("trial_begun")] == [6]
    assert sizes == [2, 2, 2, 2]  # after the last evolving step no other round begins

    run = trial(
        judge=worth(table),
        reply=numbered(),
        rounds=3,
        evolve_every=6,
        evolve_until=14,
        folder=run.folder / "longer",
        warm=False,
    )
    run.steps(10)
    assert [event["step"] for event in run.events("trial_begun")] == [6, 7, 8]
    assert run.population == ["start", "try 1", "try 2", "try 3"]


def test_an_evolution_that_comes_due_ends_the_trial_by_the_evidence_there_is(trial: Any) -> None:
    table = {"start": 0.5, **{f"try {n}": 0.6 for n in range(1, 9)}}
    run = trial(
        judge=worth(table), reply=numbered(), verify_size=1000, evolve_every=3, evolve_until=7
    )
    run.steps(4)
    assert run.population == ["start", "try 1"]
    steps = {event["step"] for event in run.events("candidate_verified")}
    assert steps == {6}
    assert [event["step"] for event in run.events("trial_begun")] == [3, 6]
    run.steps(3)
    assert run.metric("evolutions") == 2
    assert "try 2" in run.population
    assert run.events("trial_dropped") == []


def test_an_evolution_at_every_step(trial: Any) -> None:
    table = {"start": 0.5, **{f"try {n}": 0.6 for n in range(1, 9)}}
    run = trial(
        judge=worth(table), reply=numbered(), evolve_every=1, evolve_until=6, verify_size=1000
    )
    run.steps(6)
    assert [event["step"] for event in run.events("trial_begun")] == [1, 2, 3, 4, 5]
    assert [event["step"] for event in run.events("candidate_verified")] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("verify_size", [2, 1000])
@pytest.mark.parametrize("overlap_steps", [1, 2, 3])
def test_no_reply_is_asked_for_whose_trial_could_not_be_held(
    trial: Any, overlap_steps: int, verify_size: int
) -> None:
    run = trial(
        judge=worth({"start": 0.5}),
        reply=numbered(),
        reflection="overlapped",
        overlap_steps=overlap_steps,
        evolve_every=4,
        evolve_until=13,
        rounds=9,
        verify_size=verify_size,
        warm=False,
    )
    run.steps(20)
    begun = run.events("trial_begun")
    verdicts = run.events("candidate_verified")
    assert len(begun) == len(verdicts) >= 3
    assert all(event["rewards"] for event in verdicts)
    assert run.events("reflection_dropped", "trial_dropped") == []


def test_a_trial_that_training_does_not_finish_is_dropped_and_says_so(trial: Any) -> None:
    run = trial(verify_size=1000)
    run.step(last=True)
    assert run.population == ["start"]
    assert [event["reason"] for event in run.events("trial_dropped")] == ["training is over"]


def test_a_failing_reflection_model_begins_no_trial(trial: Any) -> None:
    run = trial(reply=lambda prompt: 1 / 0)
    run.steps(2)
    assert run.skipped == ["the reflection model failed: ZeroDivisionError: division by zero"]
    assert run.events("trial_begun") == []


# Late, lost and foreign groups


def test_groups_may_come_a_step_late(trial: Any) -> None:
    run = trial(verify_size=1, evolve_every=4, evolve_until=5, warm=False)
    run.steps(4)
    late = run.engine.plan(sorted(run.policy.questions), 1)
    run.engine.step_end(run.policy)
    assert run.population == ["start"]
    for plan in (late[5:], late[:5]):
        run.engine.observe([run.rollout(assignment) for assignment in plan])
    run.engine.step_end(run.policy)
    assert run.population == ["start", "good", "fair"]


def test_groups_that_come_after_the_verdict_do_no_harm(trial: Any) -> None:
    run = trial()
    late = run.engine.plan(sorted(run.policy.questions), 1)
    run.steps(3)
    assert run.population == ["start", "good", "fair"]
    before = run.window("start")
    run.engine.observe([run.rollout(assignment) for assignment in late])
    run.engine.step_end(run.policy)
    assert run.population == ["start", "good", "fair"]
    assert run.window("start") == [*before, 0.5][-5:]


def test_rounds_planned_before_a_trial_are_none_of_its_evidence(trial: Any) -> None:
    """The same candidate comes up again in the next evolution, and groups of its first trial late."""
    run = trial(["bad"], trial_steps=1, evolve_every=3, evolve_until=7, verify_size=1, warm=False)
    run.steps(3)
    late = run.engine.plan(sorted(run.policy.questions), 1)
    run.steps(3)
    assert run.state["schedule"]["trial"] is not None
    before = run.state["schedule"]["trial"]
    run.engine.observe([Rollout(assignment, "", 1.0) for assignment in late])
    assert "bad" in texts(late)
    assert run.state["schedule"]["trial"] == before


def test_a_stranger_that_gives_the_instructions_leaves_no_evidence(trial: Any) -> None:
    class Stranger:
        @hookimpl
        def coevo_plan_group(self, group_size: int) -> list[MemberPlan]:
            return [MemberPlan(instruction=Candidate("mine", "instruction"))] * group_size

    run = trial(plugins={"stranger": Stranger()}, trial_steps=2)
    run.steps(2)
    assert run.population == ["start"]
    assert len(run.events("candidate_verified")) == 3


def test_the_order_of_rollouts_decides_nothing(trial: Any, tmp_path: Path) -> None:
    def train(name: str, shuffle: Callable[[list[Rollout]], list[list[Rollout]]]) -> Any:
        rewards = random.Random(1)
        table: dict[tuple[int, int, int], float] = {}

        def judge(one: Assignment) -> float:
            place = (one.round, one.group, one.member)
            return table.setdefault(place, TABLE.get(one.instruction.text, 0.5) + rewards.random())

        run = trial(
            judge=judge, folder=tmp_path / name, verify_size=9, evolve_every=6, evolve_until=13
        )
        for _ in range(16):
            plan = run.engine.plan(sorted(run.policy.questions), 3)
            run.plans.append(plan)
            for part in shuffle([run.rollout(assignment) for assignment in plan]):
                run.engine.observe(part)
            run.engine.step_end(run.policy)
        return decisions(run), run.choices

    mixed = random.Random(2)
    expected = train("in order", lambda rollouts: [rollouts])
    assert any(event["event"] == "candidate_verified" for event in expected[0])
    assert expected == train("mixed", lambda all_: [mixed.sample(all_, len(all_))])
    assert expected == train("in parts", lambda rollouts: [rollouts[1::2], rollouts[::2]])


# State


@pytest.mark.parametrize(("overlap_steps", "verify_size"), [(None, 3), (1, 1000), (2, 3)])
def test_a_run_killed_after_any_step_decides_as_the_uninterrupted_one(
    start: Any, tmp_path: Path, overlap_steps: int | None, verify_size: int
) -> None:
    inspo: dict[str, Any] = {
        "initial_population": ("start", "b", "c", "d"),
        "verify": "in_training",
        "verify_size": verify_size,
        "prune_every": 3,
        "evolve_every": 6,
        "evolve_until": 17,
        "rounds": 2,
    }
    if overlap_steps:
        inspo |= {"reflection": "overlapped", "overlap_steps": overlap_steps}

    def train(name: str, killed_at: int | None) -> Run:
        settings = {"folder": tmp_path / name, "questions": 13, **inspo}
        run: Run = start(teacher, **settings)
        for number in range(1, 22):
            run.step(last=number == 21)
            if number == killed_at:
                plans = run.plans
                run = start(teacher, state=run.checkpoint(), **settings)
                run.plans = plans
        return run

    whole = train("whole", None)
    assert len(whole.events("candidate_verified")) >= 4
    assert {event["accepted"] for event in whole.events("candidate_verified")} == {True, False}
    for killed_at in range(1, 21):
        resumed = train(f"killed-{killed_at}", killed_at)
        assert resumed.choices == whole.choices
        assert decisions(resumed) == decisions(whole)


def test_a_kill_between_a_round_and_its_update_loses_nothing(trial: Any) -> None:
    run = trial(verify_size=1)
    run.engine.observe(
        [run.rollout(one) for one in run.engine.plan(sorted(run.policy.questions), 1)]
    )
    resumed = trial(verify_size=1, state=run.checkpoint(), warm=False)
    resumed.engine.step_end(resumed.policy)
    run.engine.step_end(run.policy)
    assert resumed.population == run.population == ["start", "good", "fair"]
    assert resumed.metric("trial_rollouts") == 3


def test_a_state_from_before_there_were_trials_is_gone_on_with(trial: Any) -> None:
    run = trial(warm=False)
    run.step()
    plugins = plugin_states(run.engine.state_dict())
    del plugins["inspo"]["schedule"]["trial"], plugins["inspo"]["trial_rollouts"]
    run.engine.desk.plugins.only("inspo", hookspecs.coevo_load_state, state=plugins["inspo"])
    run.steps(3)
    assert run.population == ["start", "good", "fair"]


# Both methods at once


def test_beside_templates_it_is_refused() -> None:
    """On hard questions all rollouts may have one, and what is left to judge by are the others: a
    candidate that is good on hard questions would not be told from one that is bad there."""
    with pytest.raises(
        SettingsError, match=r"in_training\" cannot go with p2o: rollouts under its"
    ):
        Settings(algorithms=("inspo", "p2o"), inspo={"verify": "in_training"})
    Settings(algorithms=("p2o",))
    Settings(algorithms=("inspo",), inspo={"verify": "in_training"})
