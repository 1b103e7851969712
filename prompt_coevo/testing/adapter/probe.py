"""The kit's own method: it plans every kind of member, asks the policy, and records every hook call.

It writes into the run's journal, which a harness can read wherever the trainer keeps its engine. Its
decisions depend on its state and on the rewards, so a lost state or a mixed-up reward shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from prompt_coevo.context import Context
from prompt_coevo.engine.planning import Planner
from prompt_coevo.errors import CoevoError
from prompt_coevo.lines import JSON
from prompt_coevo.markers import hookimpl
from prompt_coevo.placement import Placement
from prompt_coevo.policy import Policy
from prompt_coevo.settings.method import Method
from prompt_coevo.settings.section import Section
from prompt_coevo.types import (
    EMPTY_TEMPLATE,
    Assignment,
    Candidate,
    Group,
    MemberPlan,
    Rollout,
    RolloutRequest,
    Sampling,
)

BESIDE_THE_TEMPLATE: Final = Placement(instruction="prefix")
"""Placement of one member in every group; the other members follow the settings."""


class ProbeSettings(Section):
    """Settings of the probe."""

    texts: tuple[str, ...] = ("a", "b", "c")
    """Short texts, for instructions and templates."""
    long_text: str = "d"
    """A template that is longer than any completion."""
    asks: bool = True
    """Ask the policy for rollouts at every moment that allows it."""


class Probe:
    """The plugin in one run."""

    def __init__(self, context: Context) -> None:
        self._note = context.note
        self._settings = context.settings.section(ProbeSettings)
        self._planner = Planner(
            {},
            context.settings.placement.build(),
            distill=context.settings.context_distillation,
        )
        self._groups = 0
        self._credit = {text: [0.0, 0.0] for text in self._settings.texts}
        self._tell("built")

    @hookimpl
    def coevo_plan_group(
        self, question_id: str, round: int, group: int, group_size: int
    ) -> list[MemberPlan]:
        kinds = list(self._kinds())
        plans = [kinds[(member + group) % len(kinds)] for member in range(group_size)]
        planned = self._assignments(question_id, (round, group), plans)
        self._tell("planned", plan=[one.to_json() for one in planned])
        return plans

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        self._groups += len(groups)
        rollouts = [rollout for group in groups for rollout in group.rollouts]
        for rollout in rollouts:
            instruction = rollout.assignment.instruction
            if rollout.fit and instruction is not None:
                self._credit[instruction.text][0] += rollout.reward
                self._credit[instruction.text][1] += 1
        self._tell("observed", rollouts=_answers(rollouts))

    @hookimpl
    def coevo_evaluation_instruction(self) -> Candidate:
        return Candidate(self._favourite(), "instruction")

    @hookimpl
    def coevo_train_begin(self, policy: Policy) -> None:
        self._tell("begun", questions=_questions(policy))
        # Greedy only: a resumed run begins one more time than an uninterrupted one, and must still
        # draw the same random numbers.
        self._ask(policy, only_greedy=True)

    @hookimpl
    def coevo_step_end(self, policy: Policy, last: bool) -> None:
        self._tell("stepped", last=last)
        self._ask(policy)

    @hookimpl
    def coevo_epoch_end(self, policy: Policy) -> None:
        self._tell("epoch_over")
        self._ask(policy)

    @hookimpl
    def coevo_train_end(self, policy: Policy) -> None:
        self._tell("ended", questions=_questions(policy))
        self._ask(policy)

    @hookimpl
    def coevo_state(self) -> dict[str, JSON]:
        return {"groups": self._groups, "credit": {k: list(v) for k, v in self._credit.items()}}

    @hookimpl
    def coevo_load_state(self, state: dict[str, Any]) -> None:
        self._groups = state["groups"]
        self._credit = {text: list(credit) for text, credit in state["credit"].items()}
        self._tell("loaded")

    @hookimpl
    def coevo_metrics(self) -> dict[str, float]:
        return {"probe_groups": self._groups}

    # Internals

    def _kinds(self) -> Iterator[MemberPlan]:
        """Plan one member of every kind, with texts that depend on everything observed so far."""
        texts, favourite = self._settings.texts, self._favourite()
        one, other = (texts[(self._groups + n) % len(texts)] for n in (0, 1))
        yield _plan(one, other)
        yield _plan(None, self._settings.long_text)
        yield _plan(favourite)
        yield _plan()
        yield replace(_plan(other), template=EMPTY_TEMPLATE)
        yield replace(_plan(None, one), distill=False)
        yield replace(_plan(favourite, one), placement=BESIDE_THE_TEMPLATE)
        yield replace(_plan(one, other), distill=False)

    def _favourite(self) -> str:
        """Choose a text from all rewards so far. It changes often, so a wrong reward shows."""
        total = sum(reward for reward, _ in self._credit.values())
        return self._settings.texts[int(total * 1000) % len(self._settings.texts)]

    def _assignments(
        self, question_id: str, where: tuple[int, int], plans: Sequence[MemberPlan]
    ) -> list[Assignment]:
        """Turn the plans into assignments as the engine does."""
        return self._planner.group(question_id, where, len(plans), {"the probe": plans})

    def _ask(self, policy: Policy, only_greedy: bool = False) -> None:
        """Ask the same batch twice, to reveal random numbers that are reused."""
        ids = sorted(policy.question_ids())
        if not self._settings.asks or len(ids) < 2:  # another law covers too few ids
            return
        requests = self._requests(ids)
        if only_greedy:
            requests = [one for one in requests if one.sampling.temperature == 0]
        for _ in range(2):
            try:
                rollouts = policy.rollout(requests)
            except CoevoError:
                raise
            except Exception as error:  # in the runs where rewards are made to fail
                self._tell("refused", reason=f"{type(error).__name__}: {error}")
            else:
                self._tell("asked", requests=_written(requests), rollouts=_answers(rollouts))

    def _requests(self, ids: Sequence[str]) -> list[RolloutRequest]:
        first, second = ids[:2]
        wanted: list[tuple[str, MemberPlan, float | None]] = [
            (first, _plan(), 0.0),
            (second, _plan(), 1.5),
            (first, _plan(), 0.0),
            *((second, _plan(), None) for _ in range(4)),
            (second, _plan(*self._settings.texts[:2]), 0.0),
            (first, _plan(None, self._settings.long_text), 1.5),
            *((question_id, _plan(), 0.0) for question_id in reversed(ids)),
        ]
        return [
            RolloutRequest(self._assignments(name, (0, 0), [plan])[0], Sampling(temperature))
            for name, plan, temperature in wanted
        ]

    def _tell(self, event: str, **fields: JSON) -> None:
        self._note(f"probe_{event}", evaluation=self._favourite(), **fields)


def _plan(instruction: str | None = None, template: str | None = None) -> MemberPlan:
    return MemberPlan(
        None if instruction is None else Candidate(instruction, "instruction"),
        None if template is None else Candidate(template, "template"),
    )


def _questions(policy: Policy) -> list[dict[str, JSON]]:
    found = map(policy.question, policy.question_ids())
    return [{"id": q.id, "prompt": q.prompt, "truth": q.ground_truth} for q in found]


def _written(requests: Sequence[RolloutRequest]) -> list[dict[str, JSON]]:
    return [
        {"assignment": one.assignment.to_json(), "temperature": one.sampling.temperature}
        for one in requests
    ]


def _answers(rollouts: Sequence[Rollout]) -> list[dict[str, JSON]]:
    return [
        {
            "assignment": one.assignment.to_json(),
            "text": one.completion,
            "reward": one.reward if math.isfinite(one.reward) else None,
            "status": one.status,
        }
        for one in rollouts
    ]


METHOD: Final = Method(
    "adapter_probe",
    plugin=Probe,
    section=ProbeSettings,
    provides=frozenset({"instruction", "template"}),
    may_distill=True,
)
