"""Kills runs of a real trainer, again and again, and checks what they leave.

    python benchmarks/soak [--kills 200] [--methods stream,waves,inspo,both] [--out DIR] [--json FILE]

TRL's GRPOTrainer trains the demo's small policy; the reflection model is a server of its own, reached
through litellm, that answers equal prompts alike in every other run, and never alike in the others. A run
is killed (SIGKILL) eight times: at any moment, or while a call is under way, or while a checkpoint is
being written; each time it is started again from its last whole checkpoint. Needs the TRL environment.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))

import checker
import trl_run

KILLS_A_RUN: Final = 8
MAX_CALLS: Final = 400
MOMENTS: Final = ("any", "search", "save")
_POLL_S: Final = 0.01


@contextmanager
def teacher(log: Path, *, moody: bool) -> Iterator[str]:
    """The address of a reflection model."""
    script = Path(__file__).with_name("teacher.py")
    command = [sys.executable, "-P", str(script), str(log), *(["--moody"] if moody else [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def attempt(folder: Path, address: str, method: str) -> int:
    """Start the run, in a process that has the heavy libraries already; its id."""
    pid = os.fork()
    if pid:
        return pid
    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    status = 1
    try:
        trl_run.train(folder, address, method, MAX_CALLS)
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def ended(pid: int) -> bool:
    done, status = os.waitpid(pid, os.WNOHANG)
    if done and status and not os.WIFSIGNALED(status):
        raise RuntimeError("the run failed by itself: see log.txt in its folder")
    return bool(done)


def search_under_way(folder: Path) -> Callable[[], bool]:
    """Whether a call has begun since, and is not answered yet."""
    before = len(checker.asked(folder))

    def now() -> bool:
        calls = list(checker.lines(folder / "teacher.jsonl"))
        begun = [line for line in calls if "asked" in line]
        return len(begun) > before and 2 * len(begun) > len(calls)

    return now


def save_under_way(folder: Path) -> Callable[[], bool]:
    """Whether a checkpoint has begun since, and is not whole yet."""

    def now() -> bool:
        return any(
            not (path / "trainer_state.json").exists() for path in folder.glob("checkpoint-*")
        )

    return now


def some_rounds_on(folder: Path, rng: random.Random) -> Callable[[], bool]:
    """Whether a number of rounds has been planned since; the clock of a busy machine says nothing."""
    until = len(list(checker.lines(folder / "plans.jsonl"))) + rng.randint(1, trl_run.STEPS // 3)

    def now() -> bool:
        return len(list(checker.lines(folder / "plans.jsonl"))) >= until

    return now


def kill_at(pid: int, moment: str, folder: Path, rng: random.Random) -> bool:
    """Kill the process at such a moment; False if it ended before."""
    reached = {
        "any": lambda: some_rounds_on(folder, rng),
        "search": lambda: search_under_way(folder),
        "save": lambda: save_under_way(folder),
    }[moment]()
    while not reached():
        if ended(pid):
            return False
        time.sleep(_POLL_S)
    time.sleep(rng.uniform(0, 0.25 if moment == "any" else 0.03))
    if ended(pid):
        return False
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True


def finish(folder: Path, address: str, method: str) -> None:
    pid = attempt(folder, address, method)
    while not ended(pid):
        time.sleep(0.05)


def one_run(folder: Path, method: str, kills: int, seed: int, *, moody: bool) -> Counter[str]:
    """Kill a run so often, then let it end. How often at which moment."""
    folder.mkdir(parents=True)
    rng, done = random.Random(seed), Counter[str]()
    with teacher(folder / "teacher.jsonl", moody=moody) as address:
        for number in range(kills):
            moment = MOMENTS[(seed + number) % len(MOMENTS)]
            pid = attempt(folder, address, method)
            if not kill_at(pid, moment, folder, rng):
                break
            done[moment] += 1
        if not (folder / "done").exists():
            finish(folder, address, method)
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--methods", default=",".join(trl_run.METHODS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    out = options.out or Path(tempfile.mkdtemp(prefix="soak-"))
    methods = options.methods.split(",")
    undisturbed = {}
    for method in methods:
        folder = out / f"{method}-undisturbed"
        one_run(folder, method, 0, 0, moody=False)
        undisturbed[method] = checker.summary(folder)
        print(f"{method}: {sum(undisturbed[method]['answered'].values())} calls without a kill")
    results, moments, number = [], Counter[str](), 0
    while sum(moments.values()) < options.kills and number < 4 * options.kills:
        method, moody = methods[number % len(methods)], number // len(methods) % 2 == 1
        folder = out / f"{number:03d}-{method}"
        left = options.kills - sum(moments.values())
        killed = one_run(folder, method, min(KILLS_A_RUN, left), number, moody=moody)
        kills = sum(killed.values())
        found = checker.check(folder, kills, MAX_CALLS, None if moody else undisturbed[method])
        results.append({"method": method, "moody": moody, **found})
        moments += killed
        number += 1
        told = "; ".join(found["broken"]) or "kept"
        print(
            f"{sum(moments.values())}/{options.kills} {folder.name}: {kills} kills: {told}",
            flush=True,
        )
    broken = [sentence for result in results for sentence in result["broken"]]
    total = {
        "kills": dict(moments),
        "runs": len(results),
        "calls": sum(result["calls"] for result in results),
        "lost": sum(result["lost"] for result in results),
        "planned_again": sum(result["planned_again"] for result in results),
        "broken": broken,
    }
    print(json.dumps(total, indent=1))
    if options.json:
        options.json.write_text(json.dumps({**total, "of_runs": results}, indent=1) + "\n", "utf-8")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
