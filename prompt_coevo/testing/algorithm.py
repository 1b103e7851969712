"""The laws of algorithms.

    from prompt_coevo.testing.algorithm import AlgorithmLaws

    class TestMine(AlgorithmLaws):
        settings = {"algorithms": "mine", "plugins": {"mine": {"strength": 2.0}}}

pytest then runs every law on the real engine, with a rule-based policy and a reflection model that answers
the built-in proposers. A broken law says so in one sentence.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from prompt_coevo.testing import algorithm_probes as probes
from prompt_coevo.testing.checks import same, skip
from prompt_coevo.testing.scripted_run import Call, Planned, Run, World, rounds_of, script
from prompt_coevo.testing.scripted_world import QUESTIONS, Request, helpful_reply
from prompt_coevo.types import Assignment, Candidate

_LAG = 5  # more rounds than an epoch has steps, so candidates change before a round comes back


class AlgorithmLaws:
    """Subclass this and set `settings` to those of a short run with your algorithm.

    A run is three epochs of four rounds with six groups each. Choose settings under which the algorithm
    evolves something in that time.
    """

    settings: ClassVar[Mapping[str, Any]]
    """The arguments of `Settings`, without `seed` and `reflection.function`."""
    group_size: ClassVar[int] = 3
    draws: ClassVar[bool] = True
    """True if the algorithm draws at random; False if its observations determine all its decisions."""
    evolves: ClassVar[bool] = True
    """True if the algorithm rolls out candidates that the reflection model wrote."""
    plans_follow_observations: ClassVar[bool] = False
    """True if observing a round changes the next plan even before the weights are updated."""

    def reply(self, prompt: str) -> str:
        """Answer as the reflection model. Override it if your proposer reads another format.

        The reply must depend on the prompt alone. The keys of the shown questions help: "k3" in an
        instruction or a template solves the question "what is 3?", and also 8, 13 and 18.
        """
        return helpful_reply(prompt)

    def test_the_run_shows_something(self) -> None:
        """A candidate written by the reflection model is rolled out: else most laws prove nothing."""
        if not self.evolves:
            skip("it evolves nothing")
        new = self._whole().texts - self._whole(reply=probes.raising).texts
        assert new, (
            "no new candidate was rolled out; choose settings under which the algorithm evolves within 12 "
            "updates of the weights and 3 epochs, and see `reply`"
        )

    # Plans

    def test_plans_are_valid(self) -> None:
        """For every group size and question there is one valid assignment per rollout."""
        run = self._begun()
        for place, call in enumerate(script()):
            if place % 3 == 0:
                probes.check_plans(run)
            call(run)
        probes.check_plans(run)

    def test_plans_are_never_edited(self) -> None:
        """A plan and its candidates never change after the plan was handed out."""
        run = self._whole()
        assert run.edited() == [], f"the plans of the rounds {run.edited()} were edited afterwards"
        for candidate in probes.candidates(run):
            fresh = Candidate(candidate.text, candidate.kind)
            assert candidate.id == fresh.id, f"the text of {candidate} was edited in place"

    def test_plans_hold_what_the_method_says(self) -> None:
        """A plan has only the parts named in `Method.provides`, and is distilled only if allowed."""
        run = self._whole()
        parts = {part for method in run.methods.values() for part in method.provides}
        may_distill = any(method.may_distill for method in run.methods.values())
        for assignment in (one for plan in run.assignments for one in plan):
            for part in ("instruction", "template"):
                planned = getattr(assignment, part)
                assert planned is None or part in parts, f"{part} is not in provides: {planned}"
            assert may_distill or not assignment.distilled, (
                "a template is distilled, see may_distill"
            )

    # Randomness

    def test_the_same_seed_decides_the_same(self) -> None:
        """Two runs with one seed make the same plans and requests and save the same state."""
        one, other = self._whole(), self._whole()
        same(one.decisions, other.decisions, "two runs of one seed decide differently")
        same(one.memory, other.memory, "two runs of one seed remember different things")

    def test_another_seed_draws_differently(self) -> None:
        """Random draws depend on the seed in the settings."""
        if not self.draws:
            skip("it draws nothing")
        first = self._whole().decisions
        others = [self._whole(seed=seed).decisions for seed in range(1, 5)]
        assert any(other != first for other in others), "five seeds, and always the same decisions"

    def test_global_randomness_is_left_alone(self) -> None:
        """The process-wide random generators are neither used nor seeded."""
        found = []
        before = random.getstate(), np.random.get_state()
        try:
            for seed in (1, 2):
                random.seed(seed)
                np.random.seed(seed)
                state = probes.global_randomness()
                found.append(self._whole().decisions)
                assert probes.global_randomness() == state, "a global random generator was used"
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])
        same(found[0], found[1], "decisions depend on a global random generator")

    # State

    def test_the_state_is_json(self) -> None:
        """At any time, the state survives a trip through JSON unchanged."""
        run = self._begun()
        for call in [probes.nothing, *script()]:
            call(run)
            memory = run.memory
            read = json.loads(json.dumps(memory, allow_nan=False))
            same(memory, read, "the state changes on a trip through JSON")

    def test_a_resumed_run_goes_on_the_same(self) -> None:
        """From the state after any call, a new engine decides as if never interrupted."""
        calls = script()
        whole, watched = self._whole(), self._begun()
        saved = [probes.saved(watched)]
        for call in calls:
            call(watched)
            saved.append(probes.saved(watched))
        same(whole.decisions, watched.decisions, "asking for the state changes decisions")
        for place, (plans, requests, text) in enumerate(saved[:-1]):
            resumed = self._run()
            resumed.load(json.loads(text))
            resumed.calls(calls[place:])
            told = f"a run that was resumed after {place} of {len(calls)} calls decides differently"
            expected = {"plans": whole.plans[plans:], "requests": whole.policy.asked[requests:]}
            same(expected, resumed.decisions, told)
            same(whole.memory, resumed.memory, told.replace("decides", "remembers"))

    # Rounds

    def test_arrival_order_decides_nothing(self) -> None:
        """Rollouts of a round may come back in any order, group by group, and in parts."""
        expected = self._whole().decisions
        arrivals = {
            "shuffled": lambda rollouts: [sorted(rollouts, key=probes.by_digest)],
            "group by group": probes.last_group_first,
            "in parts": lambda rollouts: [rollouts[1::2], rollouts[::2]],
        }
        for name, arrival in arrivals.items():
            found = self._whole(arrival=arrival).decisions
            same(expected, found, f"decisions change if rollouts come back {name}")

    def test_credit_goes_to_the_candidate_that_was_planned(self) -> None:
        """Rounds that come back late, out of order or never count for the candidate they ran under."""
        orders = {
            "late": ["plan 0", "plan 1", "plan 2", "observe 0", "observe 2"],
            "late and out of order": ["plan 0", "plan 1", "plan 2", "observe 2", "observe 0"],
        }
        if not self.plans_follow_observations:
            orders["at once"] = ["plan 0", "observe 0", "plan 1", "plan 2", "observe 2"]
        for salt in range(4):
            judge = partial(probes.by_texts, salt=salt)
            found = {name: self._in_order(order, judge=judge) for name, order in orders.items()}
            for name, decisions in found.items():
                same(found["late"], decisions, f"the same rounds count differently if {name}")

    def test_rounds_may_come_long_after(self) -> None:
        """A round may come back after weight updates, after its candidates have left, or never."""
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
            probes.check_plans(run)
        run.observe(run.rollouts(waiting[0]))
        run.end()
        probes.check_metrics(run)

    # Rewards

    def test_unfit_rollouts_are_not_looked_at(self) -> None:
        """An unfit rollout never counts, whatever its reward or status, also in policy rollouts."""
        for salt, reply in enumerate((self.reply, self._misled, self._misled)):
            runs = [
                self._whole(
                    judge=partial(probes.unfit, verdict=verdict, every=3),
                    policy_judge=partial(probes.unfit_trials, verdict=verdict, salt=salt),
                    reply=reply,
                )
                for verdict in probes.UNFIT
            ]
            for verdict, run in zip(probes.UNFIT, runs, strict=True):
                told = f"a rollout of status {verdict[1]!r} with reward {verdict[0]} counts"
                same(runs[0].decisions, run.decisions, told)
                same(runs[0].memory, run.memory, told)
                same(runs[0].metrics, run.metrics, told)

    def test_an_unfit_group_counts_for_nothing(self) -> None:
        """A group without any usable rollout counts like one that never came back."""
        dropped = self._whole(arrival=lambda rollouts: [probes.without_lost(rollouts)])
        for verdict in probes.UNFIT:
            unfit = self._whole(judge=partial(probes.lost, verdict=verdict))
            told = f"groups of status {verdict[1]!r} with reward {verdict[0]} change decisions"
            same(dropped.decisions, unfit.decisions, told)

    def test_a_reward_of_zero_counts(self) -> None:
        """A reward of 0 counts like one barely above 0."""
        found = self._whole(judge=probes.barely_more).decisions
        same(self._whole().decisions, found, "a reward of 0 does not count like one barely above 0")

    def test_metrics_are_finite_numbers(self) -> None:
        """Every metric is finite and has a text as its name, from the beginning on."""
        run = self._begun()
        for call in [probes.nothing, *script()]:
            call(run)
            probes.check_metrics(run)
        unfit = self._whole(judge=partial(probes.unfit, verdict=(math.nan, "no_reward"), every=1))
        probes.check_metrics(unfit)

    # The reflection model and the gates

    def test_a_failing_reflection_model_stops_nothing(self) -> None:
        """If it raises, or answers nothing or nonsense, the run and its state stay valid."""
        for reply in [probes.raising, probes.no_text, *map(probes.always, probes.REPLIES)]:
            run = self._whole(reply=reply)
            probes.check_plans(run)
            probes.check_metrics(run)
        first, second = _halves()
        stopped = self._begun(reply=probes.raising).calls(first)
        resumed = self._run(reply=probes.raising)
        resumed.load(json.loads(json.dumps(stopped.state())))
        resumed.calls(second)

    def test_a_failure_of_the_reflection_model_passes(self) -> None:
        """The reflection model is asked again after a failure."""
        first, second = _halves()
        good = self._begun().calls(first)
        before = good.replies
        if good.calls(second).replies == before:
            skip("it asks for nothing in the second half of a run")
        down = True

        def reply(prompt: str) -> str:
            return probes.raising(prompt) if down else self.reply(prompt)

        run = self._begun(reply=reply).calls(first)
        before, down = run.replies, False
        run.calls(second)
        assert run.replies > before, "after a failure the reflection model was never asked again"

    def test_what_the_gates_refuse_is_never_rolled_out(self) -> None:
        """A refused candidate is not rolled out in training or in trials; a gate that raises refuses."""
        listening = probes.Gate(set(), "listen")
        own = self._whole(reply=probes.raising, plugins={"gate": listening}).texts
        own |= listening.asked
        for answer in ("refuse", "refuse some", "raise"):
            gate = probes.Gate(own, answer)
            run = self._whole(plugins={"gate": gate})
            refused, strange = run.texts & gate.refused, run.texts - own
            assert not refused, (
                f"a candidate was rolled out that a gate had refused: {refused.pop()!r}"
            )
            assert answer == "refuse some" or not strange, (
                f"a candidate was rolled out without asking the gates: {strange.pop()!r}"
            )

    # Policy and other plugins

    def test_the_policy_is_asked_where_it_is_given(self) -> None:
        """Only begin, step_end, epoch_end and end ask it: on the calling thread, about known questions."""
        run = self._whole()
        assert run.policy.outside == []
        assert {one[0] for one in run.policy.asked} <= set(QUESTIONS)

    def test_another_plugin_is_not_disturbed(self) -> None:
        """Beside a plugin that provides the other parts and listens, both decide as if alone."""
        alone = self._whole()
        parts = {part for method in alone.methods.values() for part in method.provides}
        both = self._whole(plugins={"bystander": probes.Bystander(parts)})
        same(alone.decisions, both.decisions, "next to another plugin it decides differently")
        memory = both.memory
        assert memory.pop("bystander") == {"groups": 3 * len(QUESTIONS)}, (
            "another plugin did not get the groups that were observed"
        )
        same(alone.memory, memory, "next to another plugin it remembers different things")

    # Internals

    def _misled(self, prompt: str) -> str:
        """Reply with help for other questions than those shown, so that few candidates do well."""
        return self.reply(
            re.sub(r"what is (\d+)\?", lambda found: f"what is {int(found[1]) + 1}?", prompt)
        )

    def _run(self, **changes: Any) -> Run:
        world = World(self.settings, self.group_size, reply=self.reply)
        return Run(replace(world, **changes))

    def _begun(self, **changes: Any) -> Run:
        run = self._run(**changes)
        run.begin()
        return run

    def _whole(self, **changes: Any) -> Run:
        return self._begun(**changes).calls(script())

    def _in_order(
        self, order: Sequence[str], **changes: Any
    ) -> dict[str, list[Planned] | list[Request]]:
        """Return a run's decisions with its rounds, three before each update, handled in this order."""
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


def _halves() -> tuple[list[Call], list[Call]]:
    calls = script()
    half = len(calls) // 2
    return calls[:half], calls[half:]
