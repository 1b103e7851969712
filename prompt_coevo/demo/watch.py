"""A run with a budget of rollouts, scored at regular fractions of it.

The budget includes all rollouts: those of training, searches and verifications.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from transformers import TrainerCallback, TrainerControl

from prompt_coevo.adapters.common.patching import swapped
from prompt_coevo.adapters.trl import CoevoCallback
from prompt_coevo.demo.arms import POINTS, ROLLOUTS_PER_STEP
from prompt_coevo.demo.evaluate import Model
from prompt_coevo.demo.job import Job
from prompt_coevo.demo.results import ArmResult, Report, Share, WordScore
from prompt_coevo.demo.under_templates import UnderTemplates
from prompt_coevo.settings import Settings
from prompt_coevo.tokens import Tokenizer
from prompt_coevo.types import PolicyVersion, RolloutRequest, Sampling

if TYPE_CHECKING:
    from trl import GRPOTrainer

    from prompt_coevo.adapters.trl.ranked_policy import Scored

_SHOWN: Final = 8


class Examination(Protocol):
    """Held-out questions, and how to score a policy on them."""

    def score(
        self, model: Model, tokenizer: Tokenizer, instruction: str | None
    ) -> Mapping[str, int]:
        """Count right answers by the keys of `words`."""

    def accuracy(self, right: Mapping[str, int], kind: str) -> float:
        """Average over a kind of questions."""

    def words(self, right: Sequence[Mapping[str, int]]) -> dict[str, WordScore]:
        """Collect the scores of all points."""

    def last(self, model: Model, tokenizer: Tokenizer, instruction: str | None) -> dict[str, Share]:
        """Score what is scored only at the end."""


def run(
    job: Job,
    trainer: GRPOTrainer,
    settings: Settings | None,
    held_out: Examination,
    report: Report,
    *,
    calls: Counter[str] | None = None,
    plugins: Mapping[str, object] | None = None,
    reserve: int = 0,
    per_step: int = ROLLOUTS_PER_STEP,
    points: int = POINTS,
) -> ArmResult:
    """Train until the job's budget is spent. Score before, at `points` fractions of it, and at the end.

    Without settings this is the bare trainer. `calls` receives the counts of `counting`. `plugins` run
    beside the method. `reserve` rollouts are left for a search after training. `per_step` is the number per
    training step.
    """
    seen = UnderTemplates()
    coevo = None
    if settings is not None:
        coevo = CoevoCallback(trainer, settings, plugins={"demo": seen, **(plugins or {})})
        trainer.add_callback(coevo)
    with counted(coevo) as outside:
        watch = Watch(
            job, trainer, coevo, held_out, outside, report, job.budget - reserve, per_step, points
        )
        trainer.add_callback(watch)
        watch.train()
    asked = calls or _calls_of_a_model(coevo)
    text = best_instruction(coevo)
    return ArmResult(
        arm=job.arm,
        seed=job.seed,
        draw=job.draw,
        budget=job.budget,
        spent=tuple(watch.spent),
        words=held_out.words(watch.right),
        last=held_out.last(trainer.model, trainer.processing_class, text),
        train_rollouts=watch.trained,
        other_rollouts=outside["rollouts"],
        batches=outside["batches"],
        calls=asked["calls"],
        tokens=asked["tokens"],
        seconds=watch.seconds,
        cpu_seconds=watch.cpu_seconds,
        cracked=seen.cracked(_SHOWN),
        instruction=text,
        instructions=seen.instructions,
    )


def counting(teacher: Callable[[str], str], calls: Counter[str]) -> Callable[[str], str]:
    """Wrap a teacher to count its calls and their words."""

    def asked(prompt: str) -> str:
        reply = teacher(prompt)
        calls.update(calls=1, tokens=len(prompt.split()) + len(reply.split()))
        return reply

    return asked


def _calls_of_a_model(coevo: CoevoCallback | None) -> Counter[str]:
    """Return the engine's counts, which include tokens of a model but not of a function."""
    metrics = coevo.engine.metrics() if coevo and coevo.engine else {}
    tokens = ("prompt_tokens", "completion_tokens")
    return Counter(
        calls=int(metrics.get("coevo/reflection_calls", 0)),
        tokens=int(sum(metrics.get(f"coevo/reflection_{name}", 0) for name in tokens)),
    )


@contextmanager
def counted(coevo: CoevoCallback | None) -> Iterator[Counter[str]]:
    """Count the batches and rollouts generated outside training."""
    counts: Counter[str] = Counter()
    if coevo is None:
        yield counts
        return
    original = coevo.policy.sample

    def sample(
        requests: list[RolloutRequest], sampling: Sampling, version: PolicyVersion
    ) -> list[Scored]:
        counts.update(batches=1, rollouts=len(requests))
        return original(requests, sampling, version)

    with swapped(coevo.policy, "sample", sample):
        yield counts


def best_instruction(coevo: CoevoCallback | None) -> str | None:
    """Return the instruction that the policy is evaluated under."""
    instruction = coevo.engine.evaluation_instruction() if coevo and coevo.engine else None
    return instruction.text if instruction else None


class Watch(TrainerCallback):  # type: ignore[misc]
    """Score the policy at regular fractions of the budget, and end training after `limit` rollouts.

    Must come after the coevolving callback, whose rollouts count.
    """

    def __init__(
        self,
        job: Job,
        trainer: GRPOTrainer,
        coevo: CoevoCallback | None,
        held_out: Examination,
        outside: Counter[str],
        report: Report,
        limit: int,
        per_step: int,
        points: int,
    ) -> None:
        self._job, self._trainer, self._coevo = job, trainer, coevo
        self._held_out, self._outside, self._report = held_out, outside, report
        self._limit, self._per_step, self._points = limit, per_step, points
        self.trained = 0
        self.spent: list[int] = []
        self.right: list[Mapping[str, int]] = []
        self._evaluating = self._evaluating_cpu = 0.0
        self.seconds = self.cpu_seconds = 0.0
        """Time of training and of all that a method does, without evaluation."""

    def train(self) -> None:
        """Train. Score before (also before a search that comes first) and after."""
        self.score()
        self._evaluating = self._evaluating_cpu = 0.0
        began, began_cpu = time.monotonic(), time.process_time()
        self._trainer.train()
        self.score()
        self.seconds = round(time.monotonic() - began - self._evaluating, 1)
        self.cpu_seconds = round(time.process_time() - began_cpu - self._evaluating_cpu, 1)

    @property
    def _spent(self) -> int:
        return self.trained + self._outside["rollouts"]

    def on_train_begin(self, *_: object, **__: object) -> None:
        self.score()

    def on_epoch_begin(self, *_: object, **__: object) -> None:
        self._score_if_due()  # a search between two epochs has spent rollouts

    def on_step_end(
        self, args: object, state: object, control: TrainerControl, **_: object
    ) -> None:
        self.trained += self._per_step
        self._report(self._spent, None)
        self._score_if_due()
        if self._spent >= self._limit:
            control.should_training_stop = True

    def _score_if_due(self) -> None:
        part = self._job.budget / self._points
        if int(self._spent / part) > int(self.spent[-1] / part):
            self.score()

    def score(self) -> None:
        """Add a point to the curve, unless the last point is at the same spending."""
        if self.spent and self.spent[-1] == self._spent:
            return
        began, began_cpu = time.monotonic(), time.process_time()
        trainer = self._trainer
        text = best_instruction(self._coevo)
        self.spent.append(self._spent)
        self.right.append(self._held_out.score(trainer.model, trainer.processing_class, text))
        self._report(self._spent, self._held_out.accuracy(self.right[-1], "hard"))
        self._evaluating += time.monotonic() - began
        self._evaluating_cpu += time.process_time() - began_cpu
