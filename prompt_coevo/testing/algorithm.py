"""The laws of algorithms.

    from prompt_coevo.testing.algorithm import AlgorithmLaws

    class TestMine(AlgorithmLaws):
        settings = {"algorithms": "mine", "mine": {"strength": 2.0}}

pytest then runs every law on the real engine, with a policy that is a rule and a reflection model that
answers the built-in proposers. A law that is broken says so in one sentence.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from prompt_coevo.markers import hookimpl
from prompt_coevo.testing.comparing import same
from prompt_coevo.testing.scripted_run import Run, World, rounds_of, script
from prompt_coevo.testing.scripted_world import (
    QUESTIONS,
    Verdict,
    digest,
    helpful_reply,
    rule,
    texts_of,
)
from prompt_coevo.types import (
    EMPTY_TEMPLATE,
    Assignment,
    Candidate,
    Group,
    MemberPlan,
    Rollout,
)

_SIZES = (1, 2, 3, 8)
_LAG = 5  # more rounds than an epoch has steps, so that rounds come back under other candidates
_BARELY = 2.0**-30
_UNFIT: tuple[Verdict, ...] = (
    (0.0, "tool_error"),
    (1.0, "tool_error"),
    (1.0, "aborted"),
    (0.0, "no_reward"),
    (math.nan, "no_reward"),
    (math.nan, "ok"),
    (math.inf, "ok"),
)
_REPLIES = (
    "",
    "I would rather not.",
    "<template>a<template>b</template></template><ins_1><ins_1>c</ins_1></ins_1>",
    "<template></template><ins_1></ins_1>",
    "</current_template></ins_0><failure_1>\x00\u202e\ud800 {{failures}} %s",
    "<template>" + "very " * 40_000 + "</template>",
)


class AlgorithmLaws:
    """Inherit, and say in `settings` which algorithm runs: the settings of a short run.

    Three epochs of four rounds with six groups each are all there is, so choose settings under which
    the algorithm evolves something in that time.
    """

    settings: ClassVar[Mapping[str, Any]]
    """What `Settings` is made of, but `seed` and `reflection.function`."""
    group_size: ClassVar[int] = 3
    draws: ClassVar[bool] = True
    """Whether it draws at random; False if all of its decisions follow from what it observes."""
    plans_follow_observations: ClassVar[bool] = False
    """True if observing a round alone, before the weights are updated, changes what is planned next."""

    def reply(self, prompt: str) -> str:
        """What the reflection model answers; override it if your proposer reads another format.

        Must depend on the prompt alone. The keys of the shown questions are what helps: "k3" in an
        instruction or a template solves the question "what is 3?", and 8, 13 and 18.
        """
        return helpful_reply(prompt)

    # Plans

    def test_plans_are_valid(self) -> None:
        """For every group size and question there is one valid assignment per rollout."""
        run = self._begun()
        for place, call in enumerate(script()):
            if place % 3 == 0:
                self._check_plans(run)
            call(run)
        self._check_plans(run)

    def test_plans_are_never_edited(self) -> None:
        """Nothing is written to a plan, or to a candidate in it, after it was given out."""
        run = self._whole()
        assert run.edited() == [], f"the plans of the rounds {run.edited()} were edited afterwards"
        for candidate in _candidates(run):
            fresh = Candidate(candidate.text, candidate.kind)
            assert candidate.id == fresh.id, f"the text of {candidate} was edited in place"

    def test_plans_hold_what_the_method_says(self) -> None:
        """A plan has the parts that `Method.provides` names, and is distilled only if it may be."""
        run = self._whole()
        parts = {part for method in run.methods.values() for part in method.provides}
        may_distil = any(method.may_distil for method in run.methods.values())
        for assignment in (one for plan in run.assignments for one in plan):
            for part in ("instruction", "template"):
                planned = getattr(assignment, part)
                assert planned is None or part in parts, f"{part} is no part of provides: {planned}"
            assert may_distil or not assignment.distilled, "a template is distilled, see may_distil"

    # Randomness

    def test_the_same_seed_decides_the_same(self) -> None:
        """Two runs of one seed make the same plans and requests, and remember the same."""
        one, other = self._whole(), self._whole()
        same(one.decisions, other.decisions, "two runs of one seed decide differently")
        same(one.memory, other.memory, "two runs of one seed remember different things")

    def test_another_seed_draws_differently(self) -> None:
        """The settings' seed is what draws depend on."""
        if not self.draws:
            _skip("it draws nothing")
        first = self._whole().decisions
        others = [self._whole(seed=seed).decisions for seed in range(1, 5)]
        assert any(other != first for other in others), "five seeds, and always the same decisions"

    def test_global_randomness_is_left_alone(self) -> None:
        """The generators that a process shares are neither used nor seeded."""
        found = []
        before = random.getstate(), np.random.get_state()
        try:
            for seed in (1, 2):
                random.seed(seed)
                np.random.seed(seed)
                state = _global_randomness()
                found.append(self._whole().decisions)
                assert _global_randomness() == state, "a global random generator was used"
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])
        same(found[0], found[1], "decisions depend on a global random generator")

    # State

    def test_the_state_is_json(self) -> None:
        """Names are texts, and what is read back is what was written, whenever it is asked for."""
        run = self._begun()
        for call in [_nothing, *script()]:
            call(run)
            for name, state in run.memory.items():
                _check_json(state, f"the state of {name!r}")
                same(
                    _plain(state),
                    json.loads(json.dumps(state, allow_nan=False)),
                    f"the state of {name!r} is another one after a trip through JSON",
                )

    def test_a_resumed_run_goes_on_the_same(self) -> None:
        """From the state after any call, a new engine decides as if nothing had happened."""
        calls = script()
        whole, watched = self._whole(), self._begun()
        saved = [_saved(watched)]
        for call in calls:
            call(watched)
            saved.append(_saved(watched))
        same(whole.decisions, watched.decisions, "that the state was asked for changes decisions")
        for place, (plans, requests, text) in enumerate(saved[:-1]):
            resumed = self._run()
            resumed.load(json.loads(text))
            resumed.calls(calls[place:])
            told = f"a run that was resumed after {place} of {len(calls)} calls decides differently"
            expected = {"plans": whole.plans[plans:], "requests": whole.policy.asked[requests:]}
            same(expected, resumed.decisions, told)
            same(_plain(whole.memory), _plain(resumed.memory), told.replace("decides", "remembers"))

    def test_a_saved_state_is_a_copy(self) -> None:
        """What the run does afterwards changes no state that was given out or loaded."""
        calls = script()
        run = self._begun()
        saved = []
        for call in calls:
            state = run.state()
            saved.append((state, json.dumps(state)))
            call(run)
        for state, text in saved:
            assert json.dumps(state) == text, "a state changed after it was given out"
        for place in (len(calls) // 3, 2 * len(calls) // 3):
            state = json.loads(saved[place][1])
            for _ in range(2):
                resumed = self._run()
                resumed.load(state)
                resumed.calls(calls[place:])
                assert json.dumps(state) == saved[place][1], "a state changed after it was loaded"

    # Rounds

    def test_arrival_order_decides_nothing(self) -> None:
        """Rollouts of a round may come back in any order, group by group, and in parts."""
        expected = self._whole().decisions
        arrivals = {
            "shuffled": lambda rollouts: [sorted(rollouts, key=_by_digest)],
            "group by group": _last_group_first,
            "in parts": lambda rollouts: [rollouts[1::2], rollouts[::2]],
        }
        for name, arrival in arrivals.items():
            found = self._whole(arrival=arrival).decisions
            same(expected, found, f"decisions change if rollouts come back {name}")

    def test_credit_goes_to_the_candidate_that_was_planned(self) -> None:
        """Rounds that come back late, out of order or never count for what they ran under."""
        orders = {
            "late": ["plan 0", "plan 1", "plan 2", "observe 0", "observe 2"],
            "late and out of order": ["plan 0", "plan 1", "plan 2", "observe 2", "observe 0"],
        }
        if not self.plans_follow_observations:
            orders["one after the other"] = [
                *("plan 0", "observe 0", "plan 1", "plan 2", "observe 2"),
            ]
        for salt in range(4):
            judge = _by_texts(salt)
            found = {name: self._in_order(order, judge=judge) for name, order in orders.items()}
            for name, decisions in found.items():
                told = f"the same rounds count differently if they come {name}"
                same(found["late"], decisions, told)

    def test_rounds_may_come_long_after(self) -> None:
        """Under other weights, when their candidates may have left, or not at all."""
        run = self._begun()
        waiting: list[list[Assignment]] = []
        for epoch in range(4):
            for number, ids in enumerate(rounds_of(epoch, 4)):
                waiting.append(run.plan(ids))
                if len(waiting) > _LAG:
                    late = waiting.pop(0)
                    if number != 2:  # one of four is lost
                        run.observe(run.rollouts(late))
                run.step()
            run.epoch()
            self._check_plans(run)
        run.observe(run.rollouts(waiting[0]))
        run.end()
        _check_metrics(run)

    # Rewards

    def test_unfit_rollouts_are_not_looked_at(self) -> None:
        """Whatever their reward or status, in training and in the policy's own rollouts."""
        runs = [
            self._whole(judge=_unfit(verdict, 3), policy_judge=_unfit(verdict, 4))
            for verdict in _UNFIT
        ]
        for verdict, run in zip(_UNFIT, runs, strict=True):
            told = f"a rollout of status {verdict[1]!r} with reward {verdict[0]} counts"
            same(runs[0].decisions, run.decisions, told)
            same(runs[0].memory, run.memory, told)
            same(runs[0].metrics, run.metrics, told)

    def test_an_unfit_group_counts_for_nothing(self) -> None:
        """A group without a rollout to judge by is as one that never came back."""
        dropped = self._whole(arrival=lambda rollouts: [_without_lost(rollouts)])
        for verdict in _UNFIT:
            unfit = self._whole(judge=lambda one, verdict=verdict: _lost(one, verdict))
            told = f"groups of status {verdict[1]!r} with reward {verdict[0]} change decisions"
            same(dropped.decisions, unfit.decisions, told)

    def test_a_reward_of_zero_counts(self) -> None:
        """As one that is barely more."""
        found = self._whole(judge=_barely_more).decisions
        same(self._whole().decisions, found, "a reward of 0 does not count as one of barely more")

    def test_metrics_are_finite_numbers(self) -> None:
        """By names that are texts, from the beginning on."""
        run = self._begun()
        for call in [_nothing, *script()]:
            call(run)
            _check_metrics(run)
        unfit = self._whole(judge=_unfit((math.nan, "no_reward"), 1))
        _check_metrics(unfit)

    # The reflection model and the gates

    def test_a_failing_reflection_model_stops_nothing(self) -> None:
        """Whether it raises, answers nothing, or nonsense: the run and its state stay valid."""
        for reply in [_raising, _no_text, *(_always(text) for text in _REPLIES)]:
            calls = script()
            run = self._begun(reply=reply).calls(calls)
            self._check_plans(run)
            _check_metrics(run)
        half = len(calls) // 2
        resumed = self._run(reply=_raising)
        resumed.load(json.loads(_saved(self._begun(reply=_raising).calls(calls[:half]))[2]))
        resumed.calls(calls[half:])

    def test_a_failure_of_the_reflection_model_passes(self) -> None:
        """Once it answers again it is asked again."""
        calls = script()
        half = len(calls) // 2
        good = self._begun().calls(calls[:half])
        before = good.replies
        if good.calls(calls[half:]).replies == before:
            _skip("it asks for nothing in the second half of a run")
        down = True

        def reply(prompt: str) -> str:
            return _raising(prompt) if down else self.reply(prompt)

        run = self._begun(reply=reply).calls(calls[:half])
        before, down = run.replies, False
        run.calls(calls[half:])
        assert run.replies > before, "after a failure the reflection model was never asked again"

    def test_what_the_gates_refuse_is_never_rolled_out(self) -> None:
        """Neither in training nor for a trial; a gate that raises refuses."""
        listening = _Gate(set(), "listen")
        own = self._whole(reply=_raising, plugins=lambda: {"gate": listening}).texts
        own |= listening.asked
        for answer in ("refuse", "refuse some", "raise"):
            gates: list[_Gate] = []

            def plugins(gates: list[_Gate] = gates, answer: str = answer) -> dict[str, object]:
                gates.append(_Gate(own, answer))
                return {"gate": gates[-1]}

            run = self._whole(plugins=plugins)
            refused = run.texts & gates[-1].refused
            assert not refused, f"a gate had refused what was rolled out: {refused.pop()!r}"
            if answer != "refuse some":
                strange = run.texts - own
                assert not strange, (
                    f"no gate was asked about what was rolled out: {strange.pop()!r}"
                )

    # The policy and other plugins

    def test_the_policy_is_asked_where_it_is_given(self) -> None:
        """In begin, step_end, epoch_end and end, by the calling thread, about known questions."""
        run = self._whole()
        assert run.policy.outside == []
        assert {one[0] for one in run.policy.asked} <= set(QUESTIONS)

    def test_another_plugin_is_not_disturbed(self) -> None:
        """Next to one that gives the other parts and listens, both decide as alone."""
        alone = self._whole()
        parts = {part for method in alone.methods.values() for part in method.provides}
        others: list[_Bystander] = []

        def plugins() -> dict[str, object]:
            others.append(_Bystander(parts))
            return {"bystander": others[-1]}

        both = self._whole(plugins=plugins)
        same(alone.decisions, both.decisions, "next to another plugin it decides differently")
        memory = both.memory
        assert memory.pop("bystander") == {"groups": 3 * len(QUESTIONS)}, (
            "another plugin did not get the groups that were observed"
        )
        same(alone.memory, memory, "next to another plugin it remembers different things")

    # Inside

    def _run(self, **changes: Any) -> Run:
        world = World(self.settings, self.group_size, reply=self.reply)
        return Run(replace(world, **changes))

    def _begun(self, **changes: Any) -> Run:
        run = self._run(**changes)
        run.begin()
        return run

    def _whole(self, **changes: Any) -> Run:
        return self._begun(**changes).calls(script())

    def _in_order(self, order: Sequence[str], **changes: Any) -> dict[str, list[tuple[Any, ...]]]:
        """The decisions of a run whose rounds, three before each update, are handled in this order."""
        run = self._begun(**changes)
        for epoch in range(4):
            for half in range(2):
                questions = rounds_of(epoch, 6)[half::2]
                planned: dict[str, list[Assignment]] = {}
                for what in order:
                    verb, number = what.split()
                    if verb == "plan":
                        planned[number] = run.plan(questions[int(number)])
                    else:
                        run.observe(run.rollouts(planned[number]))
                run.step()
            run.epoch()
        run.end()
        return run.decisions

    def _check_plans(self, run: Run) -> None:
        assert run.plan([]) == [], "there is a plan for no questions"
        for size in _SIZES:
            ids = [*QUESTIONS, next(iter(QUESTIONS))]
            plan = run.plan(ids, size)
            asked = [(one, member) for one in ids for member in range(size)]
            planned = [(one.question_id, one.member) for one in plan]
            assert planned == asked, f"groups of {size} rollouts were not planned one by one"
            for assignment in plan:
                _check_assignment(assignment)
        chosen = run.engine.evaluation_instruction()
        assert chosen is None or chosen.kind == "instruction", f"{chosen} is no instruction"


class _Gate:
    """Refuses candidates that are not the method's own: all of them, or every other one, or none."""

    def __init__(self, own: set[str], answer: str) -> None:
        self.asked: set[str] = set()
        self.refused: set[str] = set()
        self._own = own
        self._answer = answer

    @hookimpl
    def coevo_check_candidate(self, candidate: Candidate) -> str | None:
        self.asked.add(candidate.text)
        if self._answer == "listen":
            return None
        spared = self._answer == "refuse some" and digest(candidate.text) % 2
        if candidate.text in self._own or not candidate.text or spared:
            return None
        self.refused.add(candidate.text)
        if self._answer == "raise":
            raise RuntimeError("this gate is broken")
        return "refused by a law"


class _Bystander:
    """Gives empty parts where the method gives none, and counts groups."""

    def __init__(self, parts: Collection[str]) -> None:
        instruction = None if "instruction" in parts else Candidate("", "instruction")
        self._plan = MemberPlan(instruction, None if "template" in parts else EMPTY_TEMPLATE)
        self._groups = 0

    @hookimpl
    def coevo_plan_group(self, group_size: int) -> list[MemberPlan]:
        return [self._plan] * group_size

    @hookimpl(trylast=True)
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        self._groups += len(groups)

    @hookimpl
    def coevo_state(self) -> dict[str, int]:
        return {"groups": self._groups}

    @hookimpl
    def coevo_metrics(self) -> dict[str, float]:
        return {"groups": float(self._groups)}


def _nothing(run: Run) -> None: ...


def _saved(run: Run) -> tuple[int, int, str]:
    """How many plans and requests there were, and the state as a host may write it."""
    return len(run.plans), len(run.policy.asked), json.dumps(run.state(), sort_keys=True)


def _candidates(run: Run) -> list[Candidate]:
    planned = [one for plan in run.assignments for one in plan]
    found = [part for one in planned for part in (one.instruction, one.template)]
    return [candidate for candidate in found if candidate is not None]


def _check_assignment(assignment: Assignment) -> None:
    for kind in ("instruction", "template"):
        candidate = getattr(assignment, kind)
        if candidate is not None:
            assert candidate.kind == kind, f"the {kind} of a plan is a {candidate.kind}"
            assert isinstance(candidate.text, str), f"the text of a candidate is {candidate.text!r}"
    prompt = QUESTIONS[assignment.question_id].prompt
    for placed in (assignment.rollout_prompt(prompt), assignment.train_prompt(prompt)):
        assert isinstance(placed, str) == isinstance(prompt, str), "a chat became a text"


def _check_metrics(run: Run) -> None:
    for plugin, metrics in run.metrics.items():
        for name, value in metrics.items():
            assert isinstance(name, str), f"the metric {name!r} of {plugin!r} has no name"
            told = f"the metric {name!r} of {plugin!r} is {value!r}, no finite number"
            assert isinstance(value, (int, float)), told
            assert math.isfinite(value), told


def _check_json(value: Any, where: str) -> None:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            assert isinstance(key, str), f"{where} has the name {key!r}, which JSON makes a text"
            _check_json(inner, f"{where}/{key}")
    elif isinstance(value, (list, tuple)):
        for place, inner in enumerate(value):
            _check_json(inner, f"{where}/{place}")


def _plain(value: Any) -> Any:
    """Tuples as lists: a state may be written with them."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _global_randomness() -> str:
    state = np.random.get_state(legacy=False)["state"]
    return repr((random.getstate(), state["pos"], state["key"].tolist()))


def _by_digest(rollout: Rollout) -> int:
    one = rollout.assignment
    return digest(one.round, one.group, one.member)


def _last_group_first(rollouts: list[Rollout]) -> list[list[Rollout]]:
    groups: dict[int, list[Rollout]] = {}
    for rollout in rollouts:
        groups.setdefault(rollout.assignment.group, []).append(rollout)
    return list(groups.values())[::-1]


def _unfit(verdict: Verdict, every: int) -> Any:
    """The rule, but for some rollouts: whole groups, all members but one, or one."""

    def judge(assignment: Assignment) -> Verdict:
        question, member = assignment.question_id, assignment.member
        chosen = (
            digest("group", question) % every == 0
            or (digest("most", question) % every == 0 and member != 1)
            or digest(question, member, *texts_of(assignment)) % every == 0
        )
        return verdict if chosen else rule(assignment)

    return judge


def _is_lost(assignment: Assignment) -> bool:
    return assignment.group in (1, 4)


def _without_lost(rollouts: list[Rollout]) -> list[Rollout]:
    return [rollout for rollout in rollouts if not _is_lost(rollout.assignment)]


def _lost(assignment: Assignment, verdict: Verdict) -> Verdict:
    return verdict if _is_lost(assignment) else rule(assignment)


def _barely_more(assignment: Assignment) -> Verdict:
    reward, status = rule(assignment)
    return reward or _BARELY, status


def _by_texts(salt: int) -> Any:
    """Half of the questions are worth what their instruction and template are worth."""

    def judge(assignment: Assignment) -> Verdict:
        texts = texts_of(assignment)
        if digest(assignment.question_id) % 2:
            return digest(salt, *texts) % 8 / 8, "ok"
        return rule(assignment)

    return judge


def _raising(prompt: str) -> str:
    raise RuntimeError("the reflection model is down")


def _no_text(prompt: str) -> str:
    return None  # type: ignore[return-value]


def _always(text: str) -> Any:
    return lambda prompt: text


def _skip(reason: str) -> None:
    import pytest

    pytest.skip(reason)
