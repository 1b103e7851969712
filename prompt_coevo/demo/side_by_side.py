"""Run several arms at once, one process each, with a progress bar per run."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from prompt_coevo.demo.job import Job
from prompt_coevo.demo.results import ArmResult, Report
from prompt_coevo.demo.workers import workers


@dataclass(frozen=True)
class _News:
    run: int
    spent: int
    hard: float | None


def run_all(
    jobs: Sequence[Job],
    at_once: int,
    console: Console,
    done: Callable[[int, ArmResult], None],
    module: str = "prompt_coevo.demo.train",
) -> None:
    """Train all jobs with this module's `train`, `at_once` at a time.

    `done` is called with the number of each finished job and its result. The first error ends all runs and
    is raised here.
    """
    os.environ["OMP_NUM_THREADS"] = "1"  # the policy is too small for more
    context = multiprocessing.get_context("spawn")
    with (
        context.Manager() as manager,
        workers(at_once) as submit,
        _progress(console) as progress,
    ):
        news: queue.Queue[_News] = manager.Queue()
        bars = [progress.add_task(_label(job), total=job.budget, note="waiting") for job in jobs]
        pending = {submit(_train, module, job, run, news): run for run, job in enumerate(jobs)}
        while pending:
            ended = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED).done
            for future in sorted(ended, key=lambda one: one.exception() is not None):
                done(pending.pop(future), future.result())
            _show(news, progress, bars)


def _train(module: str, job: Job, run: int, news: queue.Queue[_News]) -> ArmResult:
    # The starting process does not need it, and it costs a third of a short demo's computation.
    train: Callable[[Job, Report], ArmResult] = importlib.import_module(module).train
    return train(job, lambda spent, hard: news.put(_News(run, spent, hard)))


def _show(news: queue.Queue[_News], progress: Progress, bars: Sequence[TaskID]) -> None:
    while True:
        try:
            item = news.get_nowait()
        except queue.Empty:
            return
        changes: dict[str, Any] = {"completed": item.spent}
        if item.hard is not None:
            changes["note"] = f"hard {item.hard:.2f}"
        progress.update(bars[item.run], **changes)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:.0f}/{task.total:.0f} rollouts"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
    )


def _label(job: Job) -> str:
    return f"{job.spec.label}, seed {job.seed}"
