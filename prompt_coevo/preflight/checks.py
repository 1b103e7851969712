"""Run the preflight checks in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prompt_coevo.errors import HostError, OutOfStep
from prompt_coevo.policy import Policy
from prompt_coevo.preflight.forecast import forecast
from prompt_coevo.preflight.page import Line
from prompt_coevo.preflight.prompts import Encode, check_prompts, mean_tokens, probe_of
from prompt_coevo.preflight.reflection_call import Answer, check_reflection
from prompt_coevo.reflection.paid_replies import PaidReplies
from prompt_coevo.settings import Settings, may_distill
from prompt_coevo.settings.method import Job, Method, Workload
from prompt_coevo.types import Assignment, RolloutRequest, Sampling

_ROLLED_OUT = 4


@dataclass(frozen=True)
class Checks:
    """Runs the preflight checks. `model` and `encode` are None without reflection model or tokenizer."""

    settings: Settings
    methods: Mapping[str, Method]
    model: PaidReplies | None
    encode: Encode | None

    def lines(
        self, policy: Policy | None, workload: Workload | None, *, roll_out: bool
    ) -> Iterator[Line | Answer]:
        """Yield the lines of the page, and the reflection model's answer before its line."""
        yield self._settings_line()
        if policy is not None:
            yield from check_prompts(
                policy,
                self._kinds,
                self.settings.placement.build(),
                self.encode,
                distill=may_distill(self.settings),
            )
            for method in self.methods.values():
                told = method.refuses(self.settings.section(method.section), policy)
                if told is not None:
                    yield Line("problem", "method", f"{method.name}: {told}")
        if self.settings.preflight.reflection == "off":
            yield Line("note", "reflection", "not asked (preflight.reflection = off)")
        else:
            yield from check_reflection(self.settings.reflection, self.model)
        if workload is not None:
            price = self.model.usd if self.model is not None else None
            tokens = None
            if policy is not None and self.encode is not None:
                tokens = mean_tokens(policy, self.encode)
            yield from forecast(self.settings, self.methods, workload, price, tokens)
        if policy is not None and roll_out:
            yield from self._rollout_lines(policy, workload)

    @property
    def _kinds(self) -> set[Job]:
        return {kind for method in self.methods.values() for kind in method.provides}

    def _settings_line(self) -> Line:
        names = ", ".join(self.methods) or "no method"
        preset = f", preset {self.settings.preset}" if self.settings.preset else ""
        return Line("ok", "settings", f"{names}{preset}, seed {self.settings.seed}")

    def _rollout_lines(self, policy: Policy, workload: Workload | None) -> Iterator[Line]:
        """Roll out a group of the first question, the last member under made-up candidates.

        Raise OutOfStep after the line that reports it.
        """
        size = workload.group_size if workload is not None else _ROLLED_OUT
        question_id = next(iter(policy.question_ids()), None)
        if question_id is None:
            yield Line("problem", "rollout", "policy.question_ids() is empty: nothing to roll out")
            return
        placement = self.settings.placement.build()
        bare = Assignment(question_id, placement=placement)
        plan = [*[bare] * max(1, size - 1), probe_of(question_id, self._kinds, placement)]
        try:
            rollouts = list(policy.rollout([RolloutRequest(one, Sampling()) for one in plan]))
            if len(rollouts) != len(plan):
                raise HostError(
                    f"policy.rollout gave {len(rollouts)} rollouts; give one for each request"
                )
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            yield Line("problem", "rollout", f"a group of {len(plan)} rollouts failed: {told}")
            if isinstance(error, OutOfStep):  # the ranks can no longer be synchronised
                raise
            return
        rewards = [f"{one.reward:g}" if one.fit else one.status for one in rollouts]
        told = f"question {question_id!r}: rewards {', '.join(rewards[:-1])}; under a probe {rewards[-1]}"
        if not any(one.fit for one in rollouts):
            yield Line("problem", "rollout", f"{told}: none has a usable reward")
        else:
            yield Line("ok", "rollout", told)
