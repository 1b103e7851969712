"""The kit's own method: it plans every kind of member, asks the policy, and writes down what it is told.

It writes into the run's journal, which a harness can read wherever the host keeps its engine. Its
decisions depend on its state and on the rewards, so that a lost state or a mixed-up reward shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from prompt_coevo.context import Context
from prompt_coevo.errors import CoevoError
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
"""Where one member of every group has its texts; the others follow the settings."""


class ProbeSettings(Section):
    """What the probe says."""

    texts: tuple[str, ...] = ("a", "b", "c")
    """Short texts, for instructions and templates."""
    long_text: str = "d"
    """A template that is longer than any completion."""
    asks: bool = True
    """Ask the policy for rollouts at every moment at which a method may."""


class Probe:
    """The plugin of one run."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settings = context.settings.section(ProbeSettings)
        self._groups = 0
        self._credit = {text: [0.0, 0.0] for text in self._settings.texts}
        self._tell("built")

    @hookimpl
    def coevo_plan_group(
        self, question_id: str, round: int, group: int, group_size: int
    ) -> list[MemberPlan]:
        kinds = list(self._kinds())
        plans = [kinds[(member + group) % len(kinds)] for member in range(group_size)]
        assignments = [
            self._assignment(question_id, plan, round, group, member)
            for member, plan in enumerate(plans)
        ]
        self._tell("planned", plan=[one.to_json() for one in assignments])
        return plans

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        for group in groups:
            self._groups += 1
            for rollout in group.rollouts:
                instruction = rollout.assignment.instruction
                if rollout.fit and instruction is not None:
                    self._credit[instruction.text][0] += rollout.reward
                    self._credit[instruction.text][1] += 1
        self._tell(
            "observed",
            rollouts=_answers([rollout for group in groups for rollout in group.rollouts]),
        )

    @hookimpl
    def coevo_evaluation_instruction(self) -> Candidate:
        return self._instruction(self._favourite())

    @hookimpl
    def coevo_train_begin(self, policy: Policy) -> None:
        self._tell("begun", questions=self._questions(policy))
        # Greedily only: a resumed run begins once more than an uninterrupted one, and must still draw
        # the same random numbers.
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
        self._tell("ended", questions=self._questions(policy))
        self._ask(policy)

    @hookimpl
    def coevo_state(self) -> dict[str, Any]:
        return {"groups": self._groups, "credit": {k: list(v) for k, v in self._credit.items()}}

    @hookimpl
    def coevo_load_state(self, state: dict[str, Any]) -> None:
        self._groups = state["groups"]
        self._credit = {text: list(credit) for text, credit in state["credit"].items()}
        self._tell("loaded")

    @hookimpl
    def coevo_metrics(self) -> dict[str, float]:
        return {"probe_groups": self._groups}

    # Inside

    def _kinds(self) -> Iterator[MemberPlan]:
        """One plan of every kind. The texts follow from what was observed so far."""
        texts = self._settings.texts
        one, other = (texts[(self._groups + n) % len(texts)] for n in (0, 1))
        favourite = self._instruction(self._favourite())
        yield MemberPlan(self._instruction(one), self._template(other))
        yield MemberPlan(template=self._template(self._settings.long_text))
        yield MemberPlan(favourite)
        yield MemberPlan()
        yield MemberPlan(self._instruction(other), EMPTY_TEMPLATE)
        yield MemberPlan(template=self._template(one), distill=False)
        yield MemberPlan(favourite, self._template(one), placement=BESIDE_THE_TEMPLATE)
        yield MemberPlan(self._instruction(one), self._template(other), distill=False)

    def _favourite(self) -> str:
        """A text that follows from all rewards so far and changes often: a wrong reward shows."""
        total = sum(reward for reward, _ in self._credit.values())
        return self._settings.texts[int(total * 1000) % len(self._settings.texts)]

    def _assignment(
        self, question_id: str, plan: MemberPlan, round: int = 0, group: int = 0, member: int = 0
    ) -> Assignment:
        settings = self._context.settings
        return Assignment(
            question_id,
            round,
            group,
            member,
            plan.instruction,
            plan.template,
            settings.context_distillation if plan.distill is None else plan.distill,
            plan.placement or settings.placement.build(),
        )

    def _ask(self, policy: Policy, only_greedy: bool = False) -> None:
        """Twice the same batch, so that random numbers which are used again show."""
        if self._settings.asks:
            requests = self._requests(sorted(policy.question_ids()))
            if only_greedy:
                requests = [one for one in requests if one.sampling.temperature == 0]
            for _ in range(2):
                self._note_answers(requests, policy)

    def _requests(self, ids: Sequence[str]) -> list[RolloutRequest]:
        if len(ids) < 2:
            return []  # a law of its own is about that
        first, second = ids[:2]
        one, other = self._settings.texts[:2]
        both = MemberPlan(self._instruction(one), self._template(other))
        long = MemberPlan(template=self._template(self._settings.long_text))
        wanted: list[tuple[str, MemberPlan, float | None]] = [
            (first, MemberPlan(), 0.0),
            (second, MemberPlan(), 1.5),
            (first, MemberPlan(), 0.0),
            *((second, MemberPlan(), None) for _ in range(4)),
            (second, both, 0.0),
            (first, long, 1.5),
            *((question_id, MemberPlan(), 0.0) for question_id in reversed(ids)),
        ]
        return [
            RolloutRequest(self._assignment(question_id, plan), Sampling(temperature))
            for question_id, plan, temperature in wanted
        ]

    def _note_answers(self, requests: Sequence[RolloutRequest], policy: Policy) -> None:
        try:
            rollouts = policy.rollout(requests)
        except CoevoError:
            raise
        except Exception as error:  # where rewards are made to fail
            self._tell("refused", reason=f"{type(error).__name__}: {error}")
            return
        self._tell("asked", requests=_written(requests), rollouts=_answers(rollouts))

    def _questions(self, policy: Policy) -> list[dict[str, Any]]:
        found = [policy.question(question_id) for question_id in policy.question_ids()]
        return [{"id": q.id, "prompt": q.prompt, "truth": q.ground_truth} for q in found]

    def _tell(self, event: str, **fields: Any) -> None:
        self._context.note(f"probe_{event}", evaluation=self._favourite(), **fields)

    @staticmethod
    def _instruction(text: str) -> Candidate:
        return Candidate(text, "instruction")

    @staticmethod
    def _template(text: str) -> Candidate:
        return Candidate(text, "template")


def _written(requests: Sequence[RolloutRequest]) -> list[dict[str, Any]]:
    return [
        {"assignment": one.assignment.to_json(), "temperature": one.sampling.temperature}
        for one in requests
    ]


def _answers(rollouts: Sequence[Rollout]) -> list[dict[str, Any]]:
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
    "door_probe",
    plugin=Probe,
    section=ProbeSettings,
    provides=frozenset({"instruction", "template"}),
    may_distil=True,
)
