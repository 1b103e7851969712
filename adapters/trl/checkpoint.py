"""The engine's state in the trainer's checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from prompt_coevo.adapters.common.checkpoint import load_state, save_state
from prompt_coevo.adapters.common.patching import wrap
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.trl.epochs import Epochs
from prompt_coevo.adapters.trl.host import VERSIONS, Trainer
from prompt_coevo.adapters.trl.ranks import Ranks
from prompt_coevo.adapters.trl.streams import load_late_rows, save_late_rows
from prompt_coevo.engine.coevolution import Coevolution


def carry_state(
    trainer: Trainer,
    engine: Coevolution | None,
    questions: QuestionIndex,
    ranks: Ranks,
    epochs: Epochs,
    before_load: Callable[[], None],
) -> list[Callable[[], None]]:
    """Save and load the engine, late questions and the count of epochs where the trainer saves and loads
    its optimizer. Return functions that restore the trainer's methods.

    `before_load` is called on every rank when a checkpoint is about to be loaded.
    """

    def around_save(original: Callable[[str], None], output_dir: str) -> None:
        # This is before trainer_state.json, without which the trainer does not resume from a checkpoint.
        original(output_dir)
        if engine is not None:
            save_state(engine, Path(output_dir))
            epochs.save(Path(output_dir))
            save_late_rows(questions, Path(output_dir))

    def around_load(original: Callable[[str | None], None], checkpoint: str | None) -> None:
        original(checkpoint)
        if checkpoint is None:
            return
        before_load()
        load_late_rows(questions, Path(checkpoint), ranks)
        if engine is not None and load_state(engine, Path(checkpoint)):
            epochs.load(Path(checkpoint))

    return [
        wrap(trainer, "_save_optimizer_and_scheduler", around_save, VERSIONS),
        wrap(trainer, "_load_optimizer_and_scheduler", around_load, VERSIONS),
    ]
