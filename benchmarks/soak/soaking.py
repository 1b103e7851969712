"""Kill runs repeatedly, each until it ends by itself, and collect the findings."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import checker
import moments
from evidence import note_kill
from job import UNBOUND, Job

KILLS_A_RUN: Final = 8
_POLL_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 3.0


@dataclass(frozen=True)
class Soak:
    """Hold what all runs have in common. `host` is a module such as `trl_host`."""

    host: Any
    parts: bool = False
    """Whether a part of a run can be killed alone."""
    loses: bool = False
    """Whether its last checkpoint is sometimes lost with it, as with a disk."""


@contextmanager
def teacher(log: Path, *, moody: bool) -> Iterator[str]:
    """Run a reflection model and yield its address."""
    script = Path(__file__).with_name("teacher.py")
    command = [sys.executable, "-P", str(script), str(log), *(["--moody"] if moody else [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def reached(attempt: Any, moment: Callable[[], bool]) -> bool:
    """Wait for it; return False if the run ended before."""
    while not moment():
        if attempt.ended():
            return False
        time.sleep(_POLL_S)
    return True


def disturb(
    soak: Soak, attempt: Any, name: str, folder: Path, rng: random.Random, steps: int
) -> bool:
    """Perhaps stop it for a while, then kill it at such a moment; return False if it ended before."""

    def moment(name: str) -> Callable[[], bool]:
        if name == "any":
            return moments.some_rounds_on(folder, rng, steps // 3)
        if name == "search":
            return moments.search_under_way(folder, rng)
        return moments.save_under_way(lambda: soak.host.unfinished(folder))

    kill_at = moment(name)
    if rng.random() < 0.25:
        if not reached(attempt, moment(rng.choice(("search", "save")))):
            return False
        attempt.pause(rng.uniform(0, _LONGEST_PAUSE_S))
        note_kill(folder, name, "pause")
    if not reached(attempt, kill_at):
        return False
    time.sleep(rng.uniform(0, 0.25 if name == "any" else 0.03))
    if attempt.ended():
        return False
    alone = soak.parts and rng.random() < 0.5
    if alone:
        attempt.kill_one(rng)
    else:
        attempt.kill()
    note_kill(folder, name, "one" if alone else "all")
    if soak.loses and rng.random() < 0.5:
        soak.host.lose_a_checkpoint(folder)
    return True


def one_run(
    soak: Soak, folder: Path, job: Job, kills: int, seed: int, *, moody: bool
) -> Counter[str]:
    """Kill a run this often, then let it end. Return the count of each moment."""
    folder.mkdir(parents=True)
    rng, done = random.Random(seed), Counter[str]()
    with teacher(folder / "teacher.jsonl", moody=moody) as address:
        attempt = soak.host.Attempt(folder, address, job)
        for number in range(kills):
            name = moments.NAMES[(seed + number) % len(moments.NAMES)]
            if not disturb(soak, attempt, name, folder, rng, job.steps):
                break
            done[name] += 1
            attempt = soak.host.Attempt(folder, address, job)
        reached(attempt, lambda: False)
    return done


def soaked(
    soak: Soak, jobs: list[Job], kills: int, out: Path
) -> Iterator[tuple[dict[str, Any], str]]:
    """Run until this many kills; yield the findings so far, and a line about the last run."""
    undisturbed = {}
    for job in jobs:
        if job.max_calls < UNBOUND or not soak.host.REPEATS:
            continue
        folder = out / f"{job.method}-undisturbed"
        one_run(soak, folder, job, 0, 0, moody=False)
        undisturbed[job] = checker.summary(folder)
        calls = undisturbed[job]["answered"].total()
        print(f"{job.method}: {calls} calls without a kill", flush=True)
    results, killed_at, number = [], Counter[str](), 0
    while killed_at.total() < kills and number < 4 * kills:
        job, moody = jobs[number % len(jobs)], number // len(jobs) % 2 == 1
        folder = out / f"{number:03d}-{job.method}{'-moody' if moody else ''}"
        most = min(KILLS_A_RUN, kills - killed_at.total())
        killed_at += one_run(soak, folder, job, most, number, moody=moody)
        found = checker.check(folder, job.max_calls, None if moody else undisturbed.get(job))
        results.append({"method": job.method, "moody": moody, **found})
        number += 1
        told = "; ".join(found["broken"]) or "kept"
        line = f"{killed_at.total()}/{kills} {folder.name}: {found['kills']} kills: {told}"
        yield {**total(results), "killed": dict(killed_at)}, line


def total(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sums over runs, and the runs."""
    return {
        "killed_with_a_moody_teacher": sum(one["kills"] for one in results if one["moody"]),
        "runs": len(results),
        **{
            name: sum(one[name] for one in results)
            for name in ("pauses", "calls", "lost", "reused", "planned_again", "damaged")
        },
        "broken": [sentence for one in results for sentence in one["broken"]],
        "of_runs": results,
    }
