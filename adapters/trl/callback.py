"""All that a user adds: one callback."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from prompt_coevo.adapters.trl.checks import STATE_FILE, check_trainer, generation_cycle
from prompt_coevo.adapters.trl.generation import GenerationDoor, wrap
from prompt_coevo.adapters.trl.length_gate import length_gate
from prompt_coevo.adapters.trl.questions import index_questions
from prompt_coevo.adapters.trl.ranks import Ranks
from prompt_coevo.adapters.trl.rollouts import TrlPolicy
from prompt_coevo.doors.vocabulary_gate import VocabularyGate
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.engine.state import read_state, write_json
from prompt_coevo.errors import HostError
from prompt_coevo.markers import PROJECT
from prompt_coevo.settings import Settings
from prompt_coevo.tokens import encode, vocabulary_size
from prompt_coevo.types import PolicyVersion, Question

logger = logging.getLogger(PROJECT)


class CoevoCallback(TrainerCallback):
    """Co-evolution for a GRPOTrainer or RLOOTrainer.

    >>> trainer.add_callback(CoevoCallback(trainer, settings))  # doctest: +SKIP

    `settings` are a Settings object, a mapping, or nothing (environment and defaults). `plugins` are
    registered by name. Trainer, settings and dataset are checked here, before training: raises
    SettingsError, DatasetError or HostError. The reflection model is not asked.
    """

    def __init__(
        self,
        trainer: Any,
        settings: Settings | Mapping[str, Any] | None = None,
        *,
        plugins: Mapping[str, object] | None = None,
    ) -> None:
        check_trainer(trainer)
        if not isinstance(settings, Settings):
            settings = Settings(**(settings or {}))
        self._trainer = trainer
        self._ranks = Ranks(trainer.accelerator)
        questions = index_questions(trainer.train_dataset, settings)
        self._policy = TrlPolicy(trainer, questions, self._ranks, settings.seed, self._version)
        self.engine: Coevolution | None = None
        """The engine, on rank 0; None on the other ranks."""
        if self._ranks.is_main:
            # A copy, because proposers count in the background while the trainer tokenises.
            read = partial(encode, copy.deepcopy(trainer.processing_class))
            self.engine = Coevolution.from_settings(
                settings,
                output_dir=Path(trainer.args.output_dir),
                count_tokens=lambda text: len(read(text)),
                initial_policy=getattr(trainer.model.config, "_name_or_path", ""),
                system_message=questions.shared_system_message,
                plugins={
                    "trl_length_gate": length_gate(trainer, questions, settings.placement.build()),
                    "trl_vocabulary_gate": VocabularyGate(
                        read, vocabulary_size(trainer.model.config)
                    ),
                    **(plugins or {}),
                },
            )
        self._door = GenerationDoor(
            trainer, settings, self.engine, questions, self._ranks, self._policy
        )
        self._is_open = False
        # The trainer loads a checkpoint before on_train_begin, so these two cannot wait for it.
        wrap(trainer, "_save_optimizer_and_scheduler", self._around_save)
        wrap(trainer, "_load_optimizer_and_scheduler", self._around_load)

    def question(self, question_id: str) -> Question:
        """The question with this id, as the journal names it. Raises KeyError."""
        return self._policy.question(question_id)

    # Moments of the training loop

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self._is_open:
            self._door.open()
            self._is_open = True
        self._with_policy(lambda engine: engine.begin(self._policy))
        cycle = generation_cycle(self._trainer)
        if args.save_strategy == "steps" and cycle > 1 and state.save_steps % cycle:
            logger.warning(
                "save_steps = %d is not a multiple of the %g steps that one generation serves: a "
                "run resumed from "
                "such a checkpoint trains on other batches than an uninterrupted one",
                state.save_steps,
                cycle,
            )

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The epoch before is over and another one follows: so it is never called after the last one,
        and a run resumed between two epochs makes up for the search it missed.

        A second `train()` counts epochs from 0 again, so it closes none that the engine has not seen.
        """
        epochs_over = int((state.epoch or 0) + 1e-6)
        self._with_policy(lambda engine: self._close_epoch(engine, epochs_over))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self._door.rounds:
            raise HostError(
                "a training step has passed without the trainer's generation methods, which "
                "prompt_coevo wraps; a "
                "subclass or a patch (Unsloth does this) has replaced them, so nothing would be "
                "learned from "
                "templates"
            )
        last = state.global_step >= state.max_steps or control.should_training_stop
        self._with_policy(lambda engine: engine.step_end(self._policy, last=last))
        if self.engine is not None:
            for name, value in self.engine.metrics().items():
                self._trainer._metrics["train"][name].append(value)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._with_policy(lambda engine: engine.end(self._policy))

    # Their parts

    def _close_epoch(self, engine: Coevolution, epochs_over: int) -> None:
        if epochs_over > engine.epochs:
            engine.epoch_end(self._policy)

    def _with_policy(self, action: Callable[[Coevolution], None]) -> None:
        """Rank 0 acts, and may ask for rollouts; the other ranks take part in these until it is done."""
        if self.engine is None:
            self._policy.serve()
            return
        try:
            action(self.engine)
        except BaseException as error:
            self._policy.release(error)
            raise
        self._policy.release()

    def _version(self) -> PolicyVersion:
        return self.engine.policy_version if self.engine else PolicyVersion()

    def _around_save(self, original: Callable[..., Any], output_dir: str) -> None:
        # Before trainer_state.json, without which the host does not resume from a checkpoint.
        original(output_dir)
        if self.engine is not None:
            write_json(Path(output_dir) / STATE_FILE, self.engine.state_dict())

    def _around_load(self, original: Callable[..., Any], checkpoint: str | None) -> None:
        original(checkpoint)
        if self.engine is None or checkpoint is None:
            return
        path = Path(checkpoint) / STATE_FILE
        if path.exists():
            self.engine.load_state_dict(read_state(path), where=f"the state file {path}")
        else:
            logger.warning("%s has no %s: co-evolution starts anew", checkpoint, STATE_FILE)


def attach(
    trainer: Any,
    settings: Settings | Mapping[str, Any] | None = None,
    *,
    plugins: Mapping[str, object] | None = None,
) -> CoevoCallback:
    """Add a CoevoCallback to the trainer and return it."""
    callback = CoevoCallback(trainer, settings, plugins=plugins)
    trainer.add_callback(callback)
    return callback
