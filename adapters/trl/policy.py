"""The current policy, for rollouts outside the training batch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch

from prompt_coevo.adapters.common.patching import swapped
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.trl.environments import row_of
from prompt_coevo.adapters.trl.host import Logps, Trainer
from prompt_coevo.adapters.trl.lockstep import Lockstep
from prompt_coevo.adapters.trl.ranked_engine import RankedEngine
from prompt_coevo.adapters.trl.ranked_policy import RankedPolicy, Scored
from prompt_coevo.errors import HostError
from prompt_coevo.types import PolicyVersion, RolloutRequest, Sampling


class Answered(Exception):
    """Ends a call of the trainer's generation once its completions are scored; the rest is not needed.

    `rows` are this rank's.
    """

    def __init__(self, rows: list[Scored]) -> None:
        super().__init__()
        self.rows = rows


class TrlPolicy(RankedPolicy):
    """`prompt_coevo.policy.Policy` over a GRPOTrainer or RLOOTrainer.

    Every call goes through the trainer's own generation, so tools, environments and reward functions
    behave as in training. The training state is restored afterwards.
    """

    def __init__(
        self, trainer: Trainer, questions: QuestionIndex, engine: RankedEngine, seed: int
    ) -> None:
        super().__init__(questions, engine, seed)
        self._trainer = trainer
        self.active: list[RolloutRequest] | None = None
        """The requests that the trainer is generating for right now."""
        self.in_step = Lockstep(trainer)

    def sample(
        self, requests: list[RolloutRequest], sampling: Sampling, version: PolicyVersion
    ) -> list[Scored]:
        scored: list[Scored] = []
        size = self._rows_per_call(len(requests))
        with self._undisturbed(), self._sampled_with(sampling), self.in_step.round():
            for first in range(0, len(requests), size):
                torch.manual_seed(self.next_seed(version))
                scored += self._generate(requests[first : first + size])
        return scored

    def _rows_per_call(self, share: int) -> int:
        """Return how many rows fit into one call: vLLM and continuous batching schedule any number, but
        plain generation must fit in memory."""
        trainer = self._trainer
        names = ("use_vllm", "use_transformers_continuous_batching", "use_transformers_paged")
        if any(getattr(trainer, name, False) for name in names):
            return share
        return int(trainer.args.per_device_train_batch_size * trainer.args.steps_per_generation)

    def _generate(self, requests: list[RolloutRequest]) -> list[Scored]:
        self.active = requests
        try:
            self._trainer._generate_and_score_completions(
                [row_of(self._questions.row(one.assignment.question_id)) for one in requests]
            )
            raise HostError(
                "the trainer generated completions without calling _calculate_rewards, so policy "
                "rollouts cannot be scored; a subclass has replaced a method that prompt_coevo relies on"
            )
        except Answered as answered:
            return answered.rows
        except Exception as error:
            raise self.in_step.elsewhere(error) from error
        finally:
            self.active = None

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Switch to evaluation mode inside; restore mode, metrics and pending logs afterwards."""
        trainer = self._trainer
        was_training = trainer.model.training
        kept = {
            name: copy.deepcopy(getattr(trainer, name))
            for name in ("_metrics", "_pending_extra_logs", "_pending_metrics")
        }
        with swapped(trainer, "_get_per_token_logps_and_entropies", self._no_logps()):
            trainer.model.eval()
            try:
                yield
            finally:
                trainer.model.train(was_training)
                for name, value in kept.items():
                    setattr(trainer, name, value)

    def _no_logps(self) -> Callable[..., Logps]:
        """Return zeros for log-probs, which are not needed, in a tuple as long as this TRL's."""
        original = self._trainer._get_per_token_logps_and_entropies
        others: list[None] | None = None

        def no_logps(
            model: torch.nn.Module,
            input_ids: torch.Tensor,
            attention_mask: torch.Tensor,
            logits_to_keep: int,
            *_: object,
            **__: object,
        ) -> Logps:
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
        """Change the temperature of the trainer's sampling inside; 0 is greedy."""
        trainer, temperature = self._trainer, sampling.temperature
        if temperature is None:
            yield
        elif trainer.use_vllm:
            engine = trainer.vllm_generation
            # These override everything else, including the temperature.
            kwargs = dict(getattr(engine, "generation_kwargs", None) or {})
            if "temperature" in kwargs:
                kwargs["temperature"] = temperature
            with (
                swapped(engine, "temperature", temperature),
                swapped(engine, "generation_kwargs", kwargs),
            ):
                yield
        else:
            changes = {"do_sample": temperature > 0, "temperature": temperature or 1.0}
            config = copy.deepcopy(trainer.generation_config)
            config.update(**changes)
            # TRL also applies these over the model's own configuration, which fills unset values.
            kwargs = {**getattr(trainer, "generation_kwargs", {}), **changes}
            swap = partial(swapped, trainer)
            with swap("generation_config", config), swap("generation_kwargs", kwargs):
                yield
