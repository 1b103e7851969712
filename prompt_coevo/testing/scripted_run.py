"""A run without a trainer: drives an engine as an adapter does and records its decisions."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar
from unittest import TestCase

from prompt_coevo import hookspecs
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.engine.state import plugin_states
from prompt_coevo.lines import JSON
from prompt_coevo.markers import PROJECT
from prompt_coevo.policy import Policy
from prompt_coevo.settings import Settings
from prompt_coevo.testing.scripted_world import (
    QUESTIONS,
    Judge,
    Reply,
    Request,
    ScriptedPolicy,
    helpful_reply,
    rolled_out,
    rule,
    texts_of,
)
from prompt_coevo.types import Assignment, Rollout

EPOCHS: Final = 3
PER_ROUND: Final = 6
P = ParamSpec("P")
R = TypeVar("R")

Arrival: TypeAlias = Callable[[list[Rollout]], Sequence[list[Rollout]]]
"""Splits a round's rollouts into the calls, in order, in which they come back."""

Call: TypeAlias = Callable[["Run"], None]
"""One call that an adapter makes."""

Planned: TypeAlias = tuple[int, int, int, str, str, str, bool]
"""Round, group, member, question, instruction and template of a rollout, and whether it is distilled."""


def at_once(rollouts: list[Rollout]) -> Sequence[list[Rollout]]:
    """Return all rollouts of a round in one call."""
    return [rollouts]


@dataclass(frozen=True)
class World:
    """The surroundings of a run. `settings` lack only the reflection function."""

    settings: Mapping[str, Any]
    group_size: int = 3
    seed: int = 0
    reply: Reply = helpful_reply
    judge: Judge = rule
    """Judges rollouts of training."""
    policy_judge: Judge = rule
    """Judges policy rollouts."""
    arrival: Arrival = at_once
    plugins: Mapping[str, object] = field(default_factory=dict)


class Run:
    """One scripted run: call `begin` or `load` first, then anything else.

    Raises AssertionError as soon as a plugin raises; the engine itself would only log that.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.policy = ScriptedPolicy(world.policy_judge)
        self.replies = 0
        """Number of calls of the reflection function."""
        reflection = {**world.settings.get("reflection", {}), "function": self._reply}
        settings = Settings(**{**world.settings, "seed": world.seed, "reflection": reflection})
        self.engine = Coevolution.from_settings(settings, plugins=world.plugins)
        self.methods = self.engine.context.methods
        self.assignments: list[list[Assignment]] = []
        self._given_out: list[str] = []

    # Calls of an adapter

    def begin(self) -> None:
        self._moment(self.engine.begin)

    def plan(self, question_ids: Sequence[str], group_size: int | None = None) -> list[Assignment]:
        """Plan a round. Send the plan through JSON, as it travels with its rows."""
        size = group_size or self.world.group_size
        plan = self._call(self.engine.plan, question_ids, size)
        self.assignments.append(plan)
        self._given_out.append(_as_json(plan))
        return [Assignment.from_json(one) for one in json.loads(self._given_out[-1])]

    def observe(self, rollouts: Sequence[Rollout]) -> None:
        self._call(self.engine.observe, rollouts)

    def step(self, *, last: bool = False) -> None:
        self._moment(self.engine.step_end, last=last)

    def epoch(self) -> None:
        self._moment(self.engine.epoch_end)

    def end(self) -> None:
        self._moment(self.engine.end)

    def state(self) -> dict[str, JSON]:
        return dict(self._call(self.engine.state_dict))

    def load(self, state: Mapping[str, JSON]) -> None:
        """Resume from a state as an adapter does: load, then begin."""
        self._call(self.engine.load_state_dict, state)
        # The attempt number is the only legal difference; reset it, or no two runs would compare equal.
        version = self.engine.context.policy_version
        self.engine.context.policy_version = version._replace(attempt=0)
        self.begin()

    def rollouts(self, plan: Sequence[Assignment]) -> list[Rollout]:
        """Roll out a plan as training's sampler does."""
        return [rolled_out(assignment, self.world.judge) for assignment in plan]

    def round(self, question_ids: Sequence[str]) -> None:
        """Run a generation round that comes back before the next one."""
        for part in self.world.arrival(self.rollouts(self.plan(question_ids))):
            self.observe(part)

    def calls(self, calls: Sequence[Call]) -> Run:
        for call in calls:
            call(self)
        return self

    # Results

    @property
    def plans(self) -> list[Planned]:
        return [
            (one.round, one.group, one.member, one.question_id, *texts_of(one), one.distilled)
            for plan in self.assignments
            for one in plan
        ]

    @property
    def decisions(self) -> dict[str, list[Planned] | list[Request]]:
        return {"plans": self.plans, "requests": list(self.policy.asked)}

    @property
    def texts(self) -> set[str]:
        """Return all texts that a rollout ran under, in training or outside."""
        planned = {text for one in self.plans for text in one[4:6]}
        return planned | {text for one in self.policy.asked for text in one[1:3]} - {""}

    @property
    def memory(self) -> dict[str, JSON]:
        """Return the saved states of the plugins."""
        return plugin_states(self.state())

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Return the metrics by plugin, as reported."""
        with _nothing_logged():
            return dict(self.engine.context.plugins.by_plugin(hookspecs.coevo_metrics))

    def edited(self) -> list[int]:
        """Return the rounds whose plans changed after they were handed out."""
        return [
            number
            for number, plan in enumerate(self.assignments)
            if _as_json(plan) != self._given_out[number]
        ]

    def _reply(self, prompt: str) -> str:
        self.replies += 1
        return self.world.reply(prompt)

    def _moment(
        self, call: Callable[Concatenate[Policy, P], R], *given: P.args, **how: P.kwargs
    ) -> None:
        """Call the engine at a moment when a method may ask the policy."""
        with self.policy.open() as policy:
            self._call(call, policy, *given, **how)

    def _call(self, call: Callable[P, R], *given: P.args, **how: P.kwargs) -> R:
        with _nothing_logged():
            answer = call(*given, **how)
        assert not self.policy.outside, (
            f"in engine.{call.__name__} the policy was asked for {self.policy.outside[0]}: it may be "
            "asked in begin, step_end, epoch_end and end, by the thread that calls"
        )
        return answer


def _nothing_logged() -> AbstractContextManager[None]:
    """Fail if the engine logs an error, as it does when a plugin raises."""
    checked: AbstractContextManager[None] = TestCase().assertNoLogs(PROJECT, logging.ERROR)
    return checked


def script() -> list[Call]:
    """Return three epochs of four rounds, with every question once per epoch."""
    calls: list[Call] = []
    for epoch in range(EPOCHS):
        ids = _shuffled(epoch)
        for start in range(0, len(ids), PER_ROUND):
            part = ids[start : start + PER_ROUND]
            calls += [partial(Run.round, question_ids=part), Run.step]
        calls.append(Run.epoch)
    calls[-2:] = [partial(Run.step, last=True), Run.end]
    return calls


def rounds_of(epoch: int, count: int) -> list[list[str]]:
    """Split the questions of an epoch into so many rounds."""
    ids = _shuffled(epoch)
    return [ids[number::count] for number in range(count)]


def _shuffled(epoch: int) -> list[str]:
    ids = list(QUESTIONS)
    return [ids[(7 * place + 5 * epoch) % len(ids)] for place in range(len(ids))]


def _as_json(plan: Sequence[Assignment]) -> str:
    return json.dumps([assignment.to_json() for assignment in plan])
