"""Train one arm of the demo with TRL's own GRPOTrainer until its budget of rollouts is spent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import torch

from prompt_coevo.demo.arms import GROUP_SIZE, LEARNING_RATE
from prompt_coevo.demo.held_out import HeldOut
from prompt_coevo.demo.job import Job, settings_of
from prompt_coevo.demo.results import ArmResult, Report
from prompt_coevo.demo.trainer import build_trainer, quieten
from prompt_coevo.demo.watch import counting, run
from prompt_coevo.demo.world import World, base_path, reward
from prompt_coevo.lines import JSON
from prompt_coevo.settings import Settings


def train(
    job: Job,
    report: Report,
    *,
    learning_rate: float = LEARNING_RATE,
    grade: Callable[[str, str], float] = reward,
    plugins: Mapping[str, object] | None = None,
    columns: Mapping[str, Sequence[str]] | None = None,
    changes: Mapping[str, JSON] | None = None,
    reserve: int = 0,
    held_out: HeldOut | None = None,
) -> ArmResult:
    """Train one arm. Evaluate it before, at regular fractions of the budget, and at the end.

    `plugins` run beside the method. `columns` and `changes` are those of `build_trainer`. `reserve`
    rollouts are left for a search after training.
    """
    quieten()
    torch.manual_seed(job.seed)
    world = World(job.draw)
    trainer = build_trainer(
        job.base or base_path(world),
        job.tasks(),
        grade,
        out=job.out,
        seed=job.seed,
        epochs=math.ceil(job.budget / (job.questions * GROUP_SIZE)),
        learning_rate=learning_rate,
        columns=columns,
        changes=changes,
    )
    calls = Counter[str]()
    settings = _settings(job, world, calls) if job.spec.coevolves else None
    exam = held_out or HeldOut(world)
    return run(job, trainer, settings, exam, report, calls=calls, plugins=plugins, reserve=reserve)


def _settings(job: Job, world: World, calls: Counter[str]) -> Settings:
    """Build the job's settings. `calls` counts the calls of a `reflection.function` and their words."""
    settings = settings_of(job.spec, world, job.seed, job.reflection)
    asked = settings.reflection.function
    if not callable(asked):
        return settings
    reflection = {**(job.reflection or {}), "function": counting(asked, calls)}
    return settings_of(job.spec, world, job.seed, reflection)
