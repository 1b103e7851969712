"""A guard in the trainer for its CoevoCallback, from the moment the callback is built."""

from __future__ import annotations

from collections.abc import Callable

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from prompt_coevo.adapters.trl.host import Trainer
from prompt_coevo.errors import HostError


class CallbackGuard(TrainerCallback):
    """Refuses to train if the callback that was built for the trainer is missing or was added twice.

    `leave` is called when another CoevoCallback replaces it.
    """

    def __init__(self, trainer: Trainer, owner: TrainerCallback, leave: Callable[[], None]) -> None:
        self._trainer = trainer
        self._owner = owner
        self.leave = leave

    @classmethod
    def taken(cls, trainer: Trainer) -> CallbackGuard | None:
        """Return the guard that the trainer has, or None."""
        there = trainer.callback_handler.callbacks
        return next((one for one in there if isinstance(one, cls)), None)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        times = sum(one is self._owner for one in self._trainer.callback_handler.callbacks)
        if times == 0:
            raise HostError(
                "a CoevoCallback was built for this trainer and never added to it, so nothing would "
                "co-evolve; call trainer.add_callback(callback), or callback.detach() to train without it"
            )
        if times > 1:
            raise HostError(
                f"the CoevoCallback was added to this trainer {times} times; add it once (attach() has "
                "added it already)"
            )
