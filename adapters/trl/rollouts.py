"""The current policy, for rollouts outside the training batch."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby
from typing import Any

import numpy as np
import torch

from prompt_coevo.adapters.trl.ranks import Ranks
from prompt_coevo.doors.questions import QuestionIndex
from prompt_coevo.errors import HostError
from prompt_coevo.rng import counter_rng
from prompt_coevo.types import PolicyVersion, Question, Rollout, RolloutRequest, Sampling


class Scored(Exception):
    """Ends a call of the trainer's generation once its completions are scored: all that is wanted.

    `rows` are this rank's: text, reward, and what its rollout_func reported.
    """

    def __init__(self, rows: list[tuple[str, float, str | None]]) -> None:
        super().__init__()
        self.rows = rows


class TrlPolicy:
    """`prompt_coevo.policy.Policy` over a GRPOTrainer or RLOOTrainer.

    Rank 0 calls `rollout`; the other ranks must be in `serve` meanwhile and are let go by `release`.
    Every call goes through the trainer's own generation, so tools, environments and reward functions
    behave as in training; the training state is as before afterwards.
    """

    def __init__(
        self,
        trainer: Any,
        questions: QuestionIndex,
        ranks: Ranks,
        seed: int,
        version: Callable[[], PolicyVersion],
    ) -> None:
        self._trainer = trainer
        self._questions = questions
        self._ranks = ranks
        self._seed = seed
        self._version = version
        self._calls = 0
        self.active: list[RolloutRequest] | None = None
        """The requests whose rows the trainer is generating for right now."""

    def question(self, question_id: str) -> Question:
        return self._questions.question(question_id)

    def question_ids(self) -> list[str]:
        return self._questions.ids()

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        """One scored completion per request, by the current weights. For rank 0."""
        results: list[Rollout] = []
        for sampling, same in groupby(requests, key=lambda request: request.sampling):
            order = (list(same), sampling, self._version())
            self._ranks.broadcast(("rollout", order))
            results += self._run(*order)
        return results

    def release(self, error: BaseException | None = None) -> None:
        """Let the other ranks go on, or fail with `error`. For rank 0."""
        self._calls = 0
        self._ranks.broadcast(("done", error and f"{type(error).__name__}: {error}"))

    def serve(self) -> None:
        """Take part in rank 0's rollouts until it is done. For the other ranks."""
        while True:
            order: tuple[str, Any] = self._ranks.broadcast(None)
            command, content = order
            if command == "done":
                self._calls = 0
                if content is not None:
                    raise HostError(f"rank 0 failed: {content}")
                return
            self._run(*content)

    def _run(
        self, requests: list[RolloutRequest], sampling: Sampling, version: PolicyVersion
    ) -> list[Rollout]:
        """All ranks: an equal share of the requests each (the last one repeated to fill up)."""
        share = math.ceil(len(requests) / self._ranks.count)
        start = self._ranks.rank * share
        mine = [requests[min(i, len(requests) - 1)] for i in range(start, start + share)]
        try:
            scored = self._sample(mine, sampling, version)
        except Exception as error:
            if self._ranks.count == 1:
                raise
            raise HostError(
                f"a policy rollout failed on rank {self._ranks.rank}, and the ranks are out of step now: "
                f"{type(error).__name__}: {error}"
            ) from error
        gathered = self._ranks.gather(scored)
        return [
            Rollout.scored(request.assignment, text, reward, version, reported)
            for request, (text, reward, reported) in zip(requests, gathered, strict=False)
        ]

    def _sample(
        self, requests: list[RolloutRequest], sampling: Sampling, version: PolicyVersion
    ) -> list[tuple[str, float, str | None]]:
        """This rank's completions with their rewards and reports."""
        scored: list[tuple[str, float, str | None]] = []
        size = self._rows_per_call(len(requests))
        with self._undisturbed(), self._sampled_with(sampling):
            for first in range(0, len(requests), size):
                self._seed_generation(version)
                scored += self._generate(requests[first : first + size])
        return scored

    def _rows_per_call(self, share: int) -> int:
        """vLLM and continuous batching schedule any number of rows; plain generation must fit in memory."""
        trainer = self._trainer
        batching = getattr(trainer, "use_transformers_continuous_batching", False) or getattr(
            trainer, "use_transformers_paged", False
        )
        if trainer.use_vllm or batching:
            return share
        return int(trainer.args.per_device_train_batch_size * trainer.args.steps_per_generation)

    def _generate(self, requests: list[RolloutRequest]) -> list[tuple[str, float, str | None]]:
        rows = [self._questions.row(request.assignment.question_id) for request in requests]
        self.active = requests
        try:
            self._trainer._generate_and_score_completions(rows)
        except Scored as scored:
            return scored.rows
        finally:
            self.active = None
        raise HostError(
            "the trainer generated completions without calling _calculate_rewards, so policy "
            "rollouts cannot be "
            "scored; a subclass has replaced a method that prompt_coevo relies on"
        )

    def _seed_generation(self, version: PolicyVersion) -> None:
        """The random state is restored after every call, so each call needs a seed of its own."""
        rng = counter_rng(self._seed, "trl/rollouts", version.step, self._calls, self._ranks.rank)
        self._calls += 1
        torch.manual_seed(int(rng.integers(1 << 62)))

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Evaluation mode inside; random states, metrics and pending logs as before outside."""
        trainer = self._trainer
        was_training = trainer.model.training
        python_state, numpy_state = random.getstate(), np.random.get_state()
        kept = {
            name: copy.deepcopy(getattr(trainer, name))
            for name in ("_metrics", "_pending_extra_logs", "_pending_metrics")
        }
        devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
        with (
            torch.random.fork_rng(devices=devices),
            swapped(trainer, "_get_per_token_logps_and_entropies", self._no_logps()),
        ):
            trainer.model.eval()
            try:
                yield
            finally:
                trainer.model.train(was_training)
                for name, value in kept.items():
                    setattr(trainer, name, value)
                random.setstate(python_state)
                np.random.set_state(numpy_state)

    def _no_logps(self) -> Any:
        """Log-probs are not needed: zeros, in a tuple as long as this version of TRL makes it."""
        original = self._trainer._get_per_token_logps_and_entropies
        others: list[None] | None = None

        def no_logps(
            model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, *_: Any, **__: Any
        ) -> tuple[Any, ...]:
            nonlocal others
            if others is None:
                real = original(
                    model, input_ids[:1], attention_mask[:1], logits_to_keep, batch_size=1
                )
                others = [None] * (len(real) - 1)
            zeros = torch.zeros(len(input_ids), logits_to_keep, device=input_ids.device)
            return (zeros, *others)

        return no_logps

    @contextmanager
    def _sampled_with(self, sampling: Sampling) -> Iterator[None]:
        """The trainer's sampling with another temperature; 0 is greedy."""
        trainer, temperature = self._trainer, sampling.temperature
        if temperature is None:
            yield
            return
        with ExitStack() as stack:
            if trainer.use_vllm:
                engine = trainer.vllm_generation
                stack.enter_context(swapped(engine, "temperature", temperature))
            else:
                changes: dict[str, Any] = {
                    "do_sample": temperature > 0,
                    "temperature": temperature or 1.0,
                }
                config = copy.deepcopy(trainer.generation_config)
                config.update(**changes)
                stack.enter_context(swapped(trainer, "generation_config", config))
                # TRL also lays these over the model's own configuration, which fills unset values.
                kwargs = {**getattr(trainer, "generation_kwargs", {}), **changes}
                stack.enter_context(swapped(trainer, "generation_kwargs", kwargs))
            yield


@contextmanager
def swapped(target: Any, name: str, value: Any) -> Iterator[None]:
    """An instance attribute with another value for a while."""
    missing = object()
    before = vars(target).get(name, missing)
    setattr(target, name, value)
    try:
        yield
    finally:
        if before is missing:
            delattr(target, name)
        else:
            setattr(target, name, before)
