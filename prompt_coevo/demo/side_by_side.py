"""Run several arms at once, one process each, with a progress bar per run."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from prompt_coevo.demo.job import Job
from prompt_coevo.demo.results import ArmResult, Report


@dataclass(frozen=True)
class _News:
    run: int
    spent: int
    hard: float | None


def run_all(
    jobs: Sequence[Job], workers: int, console: Console, module: str = "prompt_coevo.demo.train"
) -> list[ArmResult]:
    """Train all jobs with this module's `train`, `workers` at a time, and return the results in order.

    The first error ends all runs and is raised here.
    """
    context = multiprocessing.get_context("spawn")
    with (
        context.Manager() as manager,
        _one_thread_each(),
        ProcessPoolExecutor(workers, mp_context=context) as pool,
        _progress(console) as progress,
    ):
        news: queue.Queue[_News] = manager.Queue()
        bars = [progress.add_task(_label(job), total=job.budget, note="waiting") for job in jobs]
        futures = [pool.submit(_train, module, job, run, news) for run, job in enumerate(jobs)]
        try:
            while not _all_done(futures):
                _show(news, progress, bars)
            _show(news, progress, bars)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in futures]


def _train(module: str, job: Job, run: int, news: queue.Queue[_News]) -> ArmResult:
    # The starting process does not need it, and it costs a third of a short demo's computation.
    train: Callable[[Job, Report], ArmResult] = importlib.import_module(module).train
    return train(job, lambda spent, hard: news.put(_News(run, spent, hard)))


def _all_done(futures: Sequence[Future[ArmResult]]) -> bool:
    done, pending = wait(futures, timeout=0.2)
    for future in done:
        future.result()  # raises what the run raised
    return not pending


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


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Use one thread per run; the policy is so small that a second one costs more than it gains."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before
