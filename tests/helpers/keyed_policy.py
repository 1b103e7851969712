"""Provide a rule-based policy, and an engine without a trainer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from prompt_coevo import Coevolution, Settings
from prompt_coevo.types import PolicyVersion, Question, Rollout, RolloutRequest


@dataclass
class KeyedPolicy:
    """Solve a question iff the instruction or template names its key: "k3" solves "q3".

    With `families = 5`, "k3" solves "q3", "q8", "q13" and so on. `batches` records the requests of every
    call. It implements `prompt_coevo.policy.Policy` without a trainer.
    """

    questions: dict[str, Question]
    batches: list[list[RolloutRequest]] = field(default_factory=list)
    families: int = 1000
    fail_after: int | None = None
    version: PolicyVersion = PolicyVersion()

    def question(self, question_id: str) -> Question:
        return self.questions[question_id]

    def question_ids(self) -> list[str]:
        return list(self.questions)

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        if self.fail_after is not None and len(self.batches) >= self.fail_after:
            raise RuntimeError("the sampler is gone")
        self.batches.append(list(requests))
        return [self.answer(request) for request in requests]

    def answer(self, request: RolloutRequest) -> Rollout:
        texts = (request.assignment.instruction, request.assignment.template)
        words = " ".join(one.text for one in texts if one).split()
        number = int(request.assignment.question_id.removeprefix("q"))
        solved = f"k{number % self.families}" in words
        return Rollout(
            request.assignment,
            "right" if solved else "wrong",
            float(solved),
            policy_version=self.version,
        )

    @property
    def rollouts(self) -> int:
        return sum(map(len, self.batches))


def questions(count: int) -> dict[str, Question]:
    return {f"q{n}": Question(f"q{n}", f"what is {n}?", f"answer {n}") for n in range(count)}


def engine_of(
    reply: Callable[[str], str] = lambda prompt: "<template>k0</template>",
    output_dir: Any = None,
    plugins: dict[str, object] | None = None,
    **settings: Any,
) -> Coevolution:
    """Build an engine; `reply` is the reflection function, other arguments are settings. A section `p2o`
    without `algorithms` selects P2O."""
    if "p2o" in settings:
        settings.setdefault("algorithms", "p2o")
    settings.setdefault("reflection", {"function": reply})
    return Coevolution.from_settings(Settings(**settings), output_dir=output_dir, plugins=plugins)
