"""Count epochs over all calls of `trainer.train()`, because the trainer starts from 0 in each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from prompt_coevo.adapters.common.checkpoint import writing
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.engine.state import read_state, write_json
from prompt_coevo.errors import StateError

EPOCHS_FILE: Final = "coevo_epochs.json"
_ROUNDING: Final = 1e-6
_BEFORE: Final = "epochs_before"


class Epochs:
    """The number of completed epochs, including those of earlier calls of `train()`.

    A call that was interrupted, or ended within an epoch, counts as far as it got. Checkpoints hold the
    count of earlier calls: a run that is resumed within its second call needs it.

    A stream has no length, so the trainer takes `max_steps` for an epoch. Here an epoch is then a completed
    pass through the stream, and checkpoints hold this call's passes too. A call that has made a step ends a
    pass: the next call starts the stream again.
    """

    def __init__(self, questions: QuestionIndex) -> None:
        self._questions = questions
        self._stepped = False
        """True once a pass through a stream has begun."""
        self._before = 0.0
        self._here = 0.0
        self._resumed = False

    def begin(self) -> None:
        """Begin a call of `train()`, after it has loaded the checkpoint that it resumes from, if any."""
        if not self._resumed:
            self._before += self._here + self._stepped
        self._resumed, self._here, self._stepped = False, 0.0, False

    def begins(self, epoch: float | None) -> None:
        """Note that an epoch begins at this `state.epoch` of the trainer."""
        if not self._questions.streamed:
            self._here = epoch or 0.0
        elif self._stepped:
            self._here, self._stepped = self._here + 1.0, False

    def reached(self, epoch: float | None) -> None:
        """Note that a step has ended at this `state.epoch`."""
        self._stepped = self._questions.streamed
        if not self._stepped:
            self._here = epoch or 0.0

    @property
    def over(self) -> int:
        """Return the number of completed epochs."""
        return int(self._before + self._here + _ROUNDING)

    def save(self, folder: Path) -> None:
        """Write a file into a checkpoint's folder, next to the engine's state. Raises StateError."""
        path = folder / EPOCHS_FILE
        here = self._here if self._questions.streamed else 0.0
        with writing("the count of epochs", path):
            write_json(path, {_BEFORE: self._before + here})

    def load(self, folder: Path) -> None:
        """Load the count from a checkpoint. Raises StateError for a file that is missing or damaged."""
        path = folder / EPOCHS_FILE
        before = read_state(path).get(_BEFORE)
        if not isinstance(before, (int, float)) or not 0 <= before < float("inf"):
            raise StateError(
                f"{path} does not say how many epochs were trained before; resume from another checkpoint"
            )
        self._before, self._resumed = float(before), True
