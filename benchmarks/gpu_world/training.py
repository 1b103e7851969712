"""One run: TRL's own GRPOTrainer until all rollouts together, training's and a search's, are spent.

A run that goes on from its checkpoint ends as one that was never cut off: the questions come in the same
order in every epoch, because TRL would begin its shuffles anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from arms import settings
from clock import Clock
from questions import by_kind
from runs import POINTS, Run, read
from scoring import greedy
from tier import Base
from trainer import build_trainer

from prompt_coevo.adapters.trl import CoevoCallback
from prompt_coevo.demo.splits import held_out_tasks, training_tasks
from prompt_coevo.demo.trainer import quieten


def train(
    base: Base, arm: str, seed: int, out: Path, clock: Clock, learning_rate: float | None
) -> Run:
    """Train until the budget is spent or the time is over, from the run's checkpoint if it has one."""
    tier = base.tier
    rate = tier.learning_rate if learning_rate is None else learning_rate
    run = Run(base.tier_name, base.draw, arm, seed, rate, tier.budget)
    folder = out.parent / f"{out.stem}.run"
    checkpoint = _last_checkpoint(folder)
    if out.exists():
        before = read(out)
        if not before.is_of(run):
            raise SystemExit(f"{out} is of another run: choose another --out")
        if before.done:
            return before
        if checkpoint is not None:
            run = before
            run.curve = [point for point in run.curve if point["step"] <= _step_of(checkpoint)]
    quieten()
    datasets.disable_progress_bars()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(seed)
    tasks = training_tasks(base.world, seed, tier.questions, tier.held_out)
    trainer = build_trainer(base, tasks, folder, seed, rate)
    run.device = _name(trainer.model.device)
    coevo = None
    if (of_arm := settings(arm, tier, seed)) is not None:
        coevo = CoevoCallback(trainer, of_arm)
        trainer.add_callback(coevo)
    # After the search's callback, which would take the end of a call for the end of the run.
    watch = Watch(trainer, coevo, base, run, out, clock)
    trainer.add_callback(watch)
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    run.write(out)
    return run


class Watch(transformers.TrainerCallback):  # type: ignore[misc]
    """Counts all rollouts, scores the policy at the points, and ends the call or the run."""

    def __init__(
        self, trainer: Any, coevo: Any, base: Base, run: Run, out: Path, clock: Clock
    ) -> None:
        self._trainer, self._coevo, self._base = trainer, coevo, base
        self._run, self._out, self._clock = run, out, clock
        self._tasks = held_out_tasks(base.world, base.tier.held_out)
        self._before, self._evaluating, self._began = run.seconds, 0.0, clock.seconds

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        run, metrics = self._run, self._metrics()
        searched = int(metrics.get("coevo/search_rollouts", 0))
        rollouts = state.global_step * self._base.tier.rollouts_per_step + searched
        while len(run.curve) < POINTS and rollouts >= run.budget * (len(run.curve) + 1) / POINTS:
            self._score(state.global_step, rollouts, searched)
        run.metrics = metrics
        run.seconds = round(self._before + self._clock.seconds - self._began - self._evaluating, 1)
        if len(run.curve) == POINTS:
            run.done = control.should_training_stop = True
        elif self._clock.is_over:
            control.should_save = control.should_training_stop = True
            run.write(self._out)
            print(f"{rollouts} of {run.budget} rollouts: the same command goes on from here")

    def _metrics(self) -> dict[str, float]:
        engine = self._coevo and self._coevo.engine
        return {name: float(value) for name, value in engine.metrics().items()} if engine else {}

    def _score(self, step: int, rollouts: int, searched: int) -> None:
        """Greedy, without any template. If one step crosses several points, they have one score."""
        curve, began = self._run.curve, self._clock.seconds
        if curve and curve[-1]["step"] == step:
            curve.append(curve[-1])
            return
        trainer = self._trainer
        found = greedy(trainer.model, trainer.processing_class, self._base, self._tasks)
        spent = {"step": step, "rollouts": rollouts, "search_rollouts": searched}
        curve.append({**spent, **by_kind(found, self._tasks)})
        self._evaluating += self._clock.seconds - began
        self._run.write(self._out)
        print(json.dumps(curve[-1]), flush=True)


def _last_checkpoint(folder: Path) -> Path | None:
    """The newest whole one."""
    whole = [file.parent for file in folder.glob("checkpoint-*/trainer_state.json")]
    return max(whole, key=_step_of, default=None)


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.split("-")[1])


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
