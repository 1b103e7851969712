"""Keep all processes in step when policy rollouts fail on one of them.

In a round of generation TRL gathers statistics of the completions, then the rewards. A process that cannot
sample takes part in the first with completions that end at once; one that has no rewards takes part in the
second with NaN. Its error is raised afterwards, where the ranks share their rollouts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

from prompt_coevo.adapters.common.patching import swapped
from prompt_coevo.adapters.trl.host import Generated, Trainer, has_own_rollouts
from prompt_coevo.errors import OutOfStep
from prompt_coevo.placement import Prompt
from prompt_coevo.tokens import tokenizer_of

T = TypeVar("T")


class Lockstep:
    """Wraps the parts of policy rollouts on every process; with a single process nothing is caught."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._alone = trainer.accelerator.num_processes == 1
        self._error: Exception | None = None

    @contextmanager
    def round(self) -> Iterator[None]:
        """Make policy rollouts inside, with one call of the trainer or several.

        Raises their first error at the end, but OutOfStep at once.
        """
        self._error = None
        yield
        if self._error is not None:
            raise self._error

    def generate(
        self,
        generate: Callable[[list[Prompt]], Generated],
        prompts: list[Prompt],
        place: Callable[[], list[Prompt]],
    ) -> Generated:
        """Run the trainer's generation on placed prompts; `prompts` are those of the questions alone."""
        try:
            return generate(place())
        except Exception as error:
            if self._alone or not self._samples_alone:
                raise
            self._failed(error)
            with self._ends_at_once(len(prompts)):
                return generate(prompts)

    def rewards(self, calculate: Callable[[], torch.Tensor], rows: int) -> torch.Tensor:
        """Return the rewards of all processes; this one has `rows` of them. TRL gathers them last."""
        if self._error is None:
            try:
                return calculate()
            except Exception as error:
                if self._alone:
                    raise
                self._failed(error)
        trainer = self._trainer
        none = torch.full((rows, len(trainer.reward_funcs)), torch.nan)
        of_all: torch.Tensor = trainer.accelerator.gather(none.to(trainer.accelerator.device))
        return of_all

    def elsewhere(self, error: Exception) -> Exception:
        """Return what to raise for an error that passed through the trainer."""
        if self._alone or isinstance(error, OutOfStep):
            return error
        return OutOfStep(
            f"a policy rollout failed on rank {self._trainer.accelerator.process_index} where the other "
            f"ranks wait for it, so training cannot go on: {type(error).__name__}: {error}"
        )

    def _failed(self, error: Exception) -> None:
        self._error = self._error or error

    @property
    def _samples_alone(self) -> bool:
        """Check whether this process samples without the others."""
        trainer = self._trainer
        return not (
            trainer.use_vllm
            or trainer.is_deepspeed_enabled
            or trainer.is_fsdp_enabled
            or has_own_rollouts(trainer)
        )

    @contextmanager
    def _ends_at_once(self, rows: int) -> Iterator[None]:
        """Replace sampling by completions that end at once. RLOOTrainer has no `rollout_func`."""
        trainer = self._trainer
        ended = [[tokenizer_of(trainer.processing_class).eos_token_id]] * rows
        if not hasattr(trainer, "rollout_func"):
            with swapped(trainer, "_generate_single_turn", lambda *_, **__: ended):
                yield
            return
        output = {"prompt_ids": ended, "completion_ids": ended, "logprobs": None}
        with swapped(trainer, "rollout_func", lambda *_, **__: dict(output)):
            yield
