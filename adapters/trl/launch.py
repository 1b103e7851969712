"""The callback that a user adds to a trainer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized
from datetime import timedelta
from pathlib import Path
from typing import Final, NoReturn

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from prompt_coevo.adapters.common.due import Due
from prompt_coevo.adapters.common.open_engine import open_engine
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.common.success import deciding_function, tell_choice
from prompt_coevo.adapters.common.trackers.texts import Texts, Writing
from prompt_coevo.adapters.trl.callback_guard import CallbackGuard
from prompt_coevo.adapters.trl.checkpoint import carry_state
from prompt_coevo.adapters.trl.checks import (
    check_prompts,
    check_trainer,
    prompt_limit,
    warn_of_cut_rounds,
)
from prompt_coevo.adapters.trl.environments import Environments
from prompt_coevo.adapters.trl.epochs import Epochs
from prompt_coevo.adapters.trl.generation import GenerationAdapter
from prompt_coevo.adapters.trl.given_settings import GivenSettings, settings_of
from prompt_coevo.adapters.trl.host import Trainer
from prompt_coevo.adapters.trl.policy import TrlPolicy
from prompt_coevo.adapters.trl.ranked_engine import RankedEngine
from prompt_coevo.adapters.trl.ranks import Ranks
from prompt_coevo.adapters.trl.streams import LOOKED_AT
from prompt_coevo.adapters.trl.trackers import open_trackers
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.errors import HostError
from prompt_coevo.rendered import ChatReader
from prompt_coevo.settings import Settings
from prompt_coevo.settings.method import Workload

_READ_BY_ALL: Final = {
    "distill_forward",
    "ground_truth_column",
    "preflight",
    "question_id_column",
    "seed",
    "success",
}
"""The settings that every rank reads; the others count on rank 0 alone."""


class CoevoCallback(TrainerCallback):
    """Co-evolution for a GRPOTrainer or RLOOTrainer.

    >>> trainer.add_callback(CoevoCallback(trainer, reflection="openai/gpt-5"))  # doctest: +SKIP

    Keywords are settings. `settings` adds more: a mapping or the path of a TOML or YAML file. Or give a
    Settings object and no keywords. `plugins` are registered by name.

    The constructor checks trainer, settings and dataset: raises SettingsError, DatasetError or HostError.
    When training begins, the reflection model gets a test call, which raises PreflightError if it fails;
    with `preflight.dry_run` the run ends there by SystemExit.

    A trainer has one CoevoCallback: building another one for it replaces this one.
    """

    def __init__(
        self,
        trainer: Trainer | None = None,
        settings: GivenSettings = None,
        *,
        plugins: Mapping[str, object] | None = None,
        **values: object,
    ) -> None:
        if trainer is None or isinstance(trainer, Mapping | str | Path | Settings):
            raise HostError(
                "a CoevoCallback needs the trainer, so it cannot be among the trainer's own "
                "callbacks=[...]; build the trainer first, then call attach(trainer, ...)"
            )
        check_trainer(trainer)
        settings = settings_of(settings, values)
        decides = deciding_function(trainer.reward_func_names, settings.success)
        self._trainer = trainer
        self._settings = settings
        ranks = self._ranks = Ranks(
            trainer.accelerator.process_index,
            trainer.accelerator.num_processes,
            timedelta(seconds=trainer.args.ddp_timeout),
            "ddp_timeout",
        )
        self._read_chat = ChatReader(trainer.processing_class)
        self._environments = Environments(trainer, settings)
        questions = self._questions = self._index()
        self._dataset = trainer.train_dataset
        self.engine: Coevolution | None = None
        """The engine on rank 0; None on the other ranks."""
        if ranks.is_main:
            self.engine = open_engine(
                "trl",
                settings,
                questions,
                prompt_limit(trainer),
                output_dir=Path(trainer.args.output_dir),
                tokenizer=trainer.processing_class,
                model_config=trainer.model.config,
                initial_policy=getattr(trainer.model.config, "_name_or_path", ""),
                plugins=plugins,
            )
            names = trainer.reward_func_names
            tell_choice(names, decides, settings.success, self.engine.context.note)
        self._texts = Texts(self.engine) if self.engine is not None else None
        self._writing = Writing()
        engine = RankedEngine(self.engine, ranks)
        self.policy = TrlPolicy(trainer, questions, engine, settings.seed)
        self._adapter = GenerationAdapter(
            trainer,
            settings,
            engine,
            questions,
            self.policy,
            self._read_chat,
            decides,
            self._environments,
        )
        self._epochs = Epochs(questions)
        self._is_open = False
        if (seat := CallbackGuard.taken(trainer)) is not None:
            seat.leave()
        # The trainer loads a checkpoint before on_train_begin, so this cannot wait for it.
        self._undo = carry_state(
            trainer, self.engine, questions, ranks, self._epochs, self._look_at_dataset
        )
        self._seat = CallbackGuard(trainer, self, self.detach)
        trainer.add_callback(self._seat)

    def detach(self) -> None:
        """Undo all changes to the trainer, which then trains as if this had never been built.

        After an interrupted run, no more requests go to the reflection model; calls under way are waited
        for, some seconds at most. Raises HostError if something else has replaced a method of the trainer
        since.
        """
        while self._undo:
            self._undo[-1]()
            self._undo.pop()
        there = self._trainer.callback_handler.callbacks
        for callback in [one for one in there if one is self or one is self._seat]:
            self._trainer.remove_callback(callback)
        if self.engine is not None:
            self.engine.context.abandon()

    # Hooks of the training loop

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        train_dataloader: object = None,
        **_: object,
    ) -> None:
        if state is not self._trainer.state:
            raise HostError(
                "this CoevoCallback was built for another trainer than the one it was added to; build "
                "one with this trainer"
            )
        if not self._is_open:
            self._undo += self._adapter.open()
            self._is_open = True
        self._ranks.check_alike(self._settings.model_dump(mode="json", include=_READ_BY_ALL))
        self._look_at_dataset()
        self._epochs.begin()
        workload = self._workload(state, train_dataloader)
        if self._settings.preflight.dry_run:
            self._end_dry(workload)
        self.policy.lead(lambda engine: engine.begin(self.policy, workload))
        warn_of_cut_rounds(self._trainer, state.save_steps)

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Close the epoch before, now that another one follows.

        So the last epoch is not closed here, and a run resumed between two epochs makes up for the search
        it missed. The last epoch of one `train()` is closed when the next one begins an epoch.
        """
        self._epochs.begins(state.epoch)
        over = self._epochs.over
        self.policy.lead(
            lambda engine: Due(epoch_due=over > engine.epochs).settle(engine, self.policy)
        )

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        if not self._adapter.rounds:
            raise HostError(
                "a training step has passed without the trainer's generation methods, which "
                "prompt_coevo wraps; a subclass or a patch (Unsloth does this) has replaced them, so "
                "nothing would be learned from templates"
            )
        self._epochs.reached(state.epoch)
        last = state.global_step >= state.max_steps or control.should_training_stop
        self.policy.lead(lambda engine: engine.step_end(self.policy, last=last))
        if self.engine is not None:
            logged = self._trainer._metrics["train"]
            for name, value in self.engine.metrics().items():
                # TRL writes the mean of what is in the list.
                before = logged[name] if name in self.engine.metrics_of_round else ()
                logged[name] = [*before, value]
        self._show(state.global_step, last=last)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        self.policy.lead(lambda engine: engine.end(self.policy))
        self._show(state.global_step, last=True)

    def _show(self, step: int, *, last: bool) -> None:
        """Write to trackers with an open run. Most close theirs before `on_train_end` reaches us."""
        if self._texts is not None and (tables := self._texts.due(step, last=last)):
            self._writing.write(tables, step, open_trackers(self._trainer))

    # Helpers

    def _look_at_dataset(self) -> None:
        """Index the trainer's questions again if it was given another dataset. Raises DatasetError."""
        dataset = self._trainer.train_dataset
        if dataset is self._dataset:
            return
        check_trainer(self._trainer)
        questions = self._index()
        changed = questions.identity != self._questions.identity
        self._questions.become(questions)
        self._dataset = dataset
        if changed and self.engine is not None:
            self.engine.dataset_replaced(questions.identity)

    def _index(self) -> QuestionIndex:
        dataset = self._trainer.train_dataset
        questions = self._environments.index(dataset, self._ranks, self._read_chat)
        check_prompts(self._trainer, questions)
        return questions

    def _workload(self, state: TrainerState, loader: object) -> Workload:
        """Describe what the trainer trains on, in this `train()` and those before it. A stream has no
        length: the number of epochs is then None, and the questions are as many as the run can meet."""
        args = self._trainer.args
        before = (self.engine.policy_version.step if self.engine else 0) - state.global_step
        steps = before + state.max_steps
        epochs = None
        if isinstance(loader, Sized) and not self._questions.streamed:
            steps_per_epoch = max(1, math.ceil(len(loader) / args.gradient_accumulation_steps))
            epochs = steps / steps_per_epoch
        updates = args.steps_per_generation * self._trainer.num_iterations
        questions, rows = len(self._questions), self._questions.rows
        all_indexed = not self._questions.streamed or 1 < rows < LOOKED_AT
        if not all_indexed:
            dataset = self._trainer.train_dataset
            per_step = args.generation_batch_size / self._trainer.num_generations / updates
            met = math.ceil(steps * args.gradient_accumulation_steps * per_step)
            questions = rows = len(dataset) if isinstance(dataset, Sized) else met
        return Workload(
            questions,
            self._trainer.num_generations,
            epochs,
            steps,
            updates / args.gradient_accumulation_steps,
            rows,
        )

    def _end_dry(self, workload: Workload) -> NoReturn:
        """Do the dry run on rank 0, and end all ranks with its exit status."""
        found: list[int] = []
        self.policy.lead(lambda engine: found.append(engine.dry_run(self.policy, workload)))
        raise SystemExit(self._ranks.broadcast(found[0] if found else None))


def attach(
    trainer: Trainer,
    settings: GivenSettings = None,
    *,
    plugins: Mapping[str, object] | None = None,
    **values: object,
) -> CoevoCallback:
    """Add a CoevoCallback to the trainer and return it; arguments and errors are the callback's.

    >>> attach(trainer, reflection="openai/gpt-5")  # doctest: +SKIP
    """
    callback = CoevoCallback(trainer, settings, plugins=plugins, **values)
    trainer.add_callback(callback)
    return callback
