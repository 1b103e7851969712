"""The policy behind an endpoint: its weights stay as they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from prompt_coevo.doors.questions import QuestionIndex
from prompt_coevo.endpoint.chat_model import ChatModel, packed
from prompt_coevo.endpoint.rewards import Reward, scored
from prompt_coevo.errors import CoevoError, SettingsError
from prompt_coevo.placement import Prompt
from prompt_coevo.redact import redact
from prompt_coevo.reflection.ledger import Ledger
from prompt_coevo.reflection.paid_replies import PaidReplies
from prompt_coevo.reflection.patience import Patience
from prompt_coevo.reflection.spending import Spending, is_refusal
from prompt_coevo.settings.reflection import ReflectionSettings
from prompt_coevo.types import Assignment, PolicyVersion, Question, Rollout, RolloutRequest

_NO_TEMPERATURE: Final = (
    "; if the model takes no temperature but its own, say --temperature default"
)
SEARCH_ENDS: Final = "the search ends"
_SEVERAL: Final = 4
"""Calls that all fail because the endpoint does, not because of what was asked."""
_PROBE_S: Final = 10.0
"""Seconds in which a first call is made again."""


class EndpointError(CoevoError, RuntimeError):
    """The policy's endpoint gives no completions."""


class BudgetSpent(Exception):
    """The budget pays for no more completions; it ends a search with what it has found."""


class EndpointPolicy:
    """`prompt_coevo.policy.Policy` of a model that litellm reaches.

    Calls are in the run's `ledger`, next to the reflection model's, and held against the same budgets.
    `temperature` is that of training-like samples, None for a model that takes no temperature but its own.
    `settings` say how to reach it, how long completions may be and what the budget is. A completion that
    cannot be had is an aborted rollout; if none of several can be had, EndpointError, or BudgetSpent.
    """

    def __init__(
        self,
        settings: ReflectionSettings,
        questions: QuestionIndex,
        reward: Reward,
        ledger: Ledger,
        *,
        temperature: float | None,
        note: Callable[..., None],
        secrets: Sequence[str] = (),
    ) -> None:
        assert settings.model is not None
        self.calls = self.failed = 0
        """Completions that were asked for, and those that could not be had."""
        self.spent: str | None = None
        """What the budget said to the first completion that it did not pay for in a search."""
        self._settings = settings
        self._questions = questions
        self._reward = reward
        self._ledger = ledger
        self._temperature = temperature
        self._note = note
        self._secrets = secrets
        self._model = ChatModel(settings.model, settings)
        if settings.max_usd is not None and not self._model.has_price:
            raise SettingsError(
                f"a budget of {settings.max_usd:g} US dollars cannot be kept, for litellm's price list has "
                f"no price for {settings.model}; limit the calls or the tokens instead"
            )
        self._replies = self._paid(settings)

    # prompt_coevo.policy.Policy

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        """Raises EndpointError, RewardError or BudgetSpent."""
        temperatures = [self._asked_for(one.sampling.temperature) for one in requests]
        assignments = [one.assignment for one in requests]
        return self._completed(assignments, temperatures, self._questions, self._replies)

    def question(self, question_id: str) -> Question:
        return self._questions.question(question_id)

    def question_ids(self) -> list[str]:
        return self._questions.ids()

    # For what is no search

    def probe(self) -> None:
        """Two completions, warm and greedy, for which a server that is down is not waited for long.

        Raises EndpointError.
        """
        asked = Assignment(self._questions.ids()[0])
        replies = self._paid(self._settings, patience_s=_PROBE_S)
        for temperature in (self._temperature, self._asked_for(0.0)):
            self._completed([asked], [temperature], self._questions, replies, alone=True)

    def sampled(self, assignments: Sequence[Assignment]) -> list[Rollout]:
        """Of questions to search on, at the policy's own temperature."""
        temperatures = [self._temperature] * len(assignments)
        return self._completed(assignments, temperatures, self._questions, self._replies)

    def greedy(
        self,
        assignments: Sequence[Assignment],
        questions: QuestionIndex,
        budget: ReflectionSettings,
    ) -> list[Rollout]:
        """Of questions that the search does not see, within a budget of their own; at the model's own
        temperature if that is all it takes."""
        replies = self._paid(budget)
        temperatures = [self._asked_for(0.0)] * len(assignments)
        return self._completed(assignments, temperatures, questions, replies)

    # Inside

    def _asked_for(self, temperature: float | None) -> float | None:
        """What a call says. A model that takes only its own temperature is asked for no other."""
        if temperature is None or self._temperature is None:
            return self._temperature
        return temperature

    def _paid(self, budget: ReflectionSettings, patience_s: float | None = None) -> PaidReplies:
        settings = self._settings
        identity = {
            "policy": settings.model,
            "max_tokens": settings.max_tokens,
            "api_base": redact(settings.api_base or ""),
        }
        spending = Spending.from_settings(budget)
        spending.then = SEARCH_ENDS
        return PaidReplies(
            self._model,
            identity,
            self._ledger,
            spending=spending,
            patience=Patience(min(patience_s or math.inf, settings.total_timeout_s)),
            at_once=settings.calls_at_once,
            secrets=self._secrets,
            note=self._noted,
        )

    def _noted(self, event: str, **fields: Any) -> None:
        if event != "reply":  # completions that decided are in the journal next to their verdicts
            self._note(event, **fields)

    def _completed(
        self,
        assignments: Sequence[Assignment],
        temperatures: Sequence[float | None],
        questions: QuestionIndex,
        replies: PaidReplies,
        *,
        alone: bool = False,
    ) -> list[Rollout]:
        """Raises what `rollout` does; for a small batch only if it stands `alone`: a server may refuse
        single questions."""
        prompts = [
            packed(_messages(one.rollout_prompt(questions.question(one.question_id).prompt)), warm)
            for one, warm in zip(assignments, temperatures, strict=True)
        ]
        answers = replies.complete(prompts)
        errors = [answer.error for answer in answers if answer.error is not None]
        refused = [error for error in errors if is_refusal(error)]
        self.calls += len(answers) - len(refused)
        self.failed += len(errors) - len(refused)
        if refused:
            if replies is self._replies:
                self.spent = self.spent or refused[0]
            raise BudgetSpent(refused[0])
        if len(errors) == len(answers) and (alone or len(errors) >= _SEVERAL):
            hint = _NO_TEMPERATURE if "temperature" in errors[-1] else ""
            raise EndpointError(
                f"the policy {self._settings.model} gave no completion, {len(errors)} of {len(errors)} "
                f"calls failed: {errors[-1]}{hint}"
            )
        if errors:
            self._note(
                "completions_failed", calls=len(answers), failed=len(errors), last=errors[-1]
            )
        return [
            self._rollout(assignment, answer.text, questions.row(assignment.question_id), questions)
            for assignment, answer in zip(assignments, answers, strict=True)
        ]

    def _rollout(
        self,
        assignment: Assignment,
        text: str | None,
        row: Mapping[str, Any],
        questions: QuestionIndex,
    ) -> Rollout:
        if text is None:
            return Rollout(assignment, "", math.nan, "aborted", PolicyVersion())
        truth = questions.question(assignment.question_id).ground_truth or ""
        return Rollout(assignment, text, scored(self._reward, text, truth, row))


def _messages(prompt: Prompt) -> list[Mapping[str, Any]]:
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
