"""Kills runs of a real trainer, again and again, and checks what they leave.

    python benchmarks/soak [--host trl] [--ranks 2] [--kills 200] [--max-calls 12]
        [--methods stream,waves,inspo,both] [--out DIR] [--json benchmarks/results/soak.json]

The trainer is TRL's GRPOTrainer on so many ranks, or `verl` or `openrlhf` on the tests' stand-ins; it
trains the demo's small policy. The reflection model is a server of its own, reached through litellm, that
answers equal prompts alike in every other run, and never alike in the others. A run is killed (SIGKILL)
several times: at any moment, or while a call is under way, or while a checkpoint is being written; each
time it is started again from its last whole checkpoint. Before some kills it stands still for a while
(SIGSTOP). With several ranks, or under Ray, half of the kills hit one rank, or the driver, alone. Needs
the trainer's environment. The file gets one entry for each host, number of ranks and budget.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))

import checker
import moments
from evidence import note_kill

KILLS_A_RUN: Final = 8
MAX_CALLS: Final = 400
_POLL_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 3.0


@dataclass(frozen=True)
class Soak:
    """What all runs have in common. `host` is a module such as `trl_host`."""

    host: Any
    max_calls: int = MAX_CALLS
    ranks: int = 1
    parts: bool = False
    """Whether a part of a run can be killed alone."""

    def start(self, folder: Path, address: str, method: str) -> Any:
        return self.host.Attempt(folder, address, method, self.max_calls, self.ranks)


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


def reached(attempt: Any, moment: Callable[[], bool]) -> bool:
    """Wait for it; False if the run ended before."""
    while not moment():
        if attempt.ended():
            return False
        time.sleep(_POLL_S)
    return True


def disturb(soak: Soak, attempt: Any, name: str, folder: Path, rng: random.Random) -> bool:
    """Perhaps stop it for a while, then kill it at such a moment; False if it ended before."""

    def moment(name: str) -> Callable[[], bool]:
        if name == "any":
            return moments.some_rounds_on(folder, rng, soak.host.ROUNDS // 3)
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
    return True


def one_run(
    soak: Soak, folder: Path, method: str, kills: int, seed: int, *, moody: bool
) -> Counter[str]:
    """Kill a run so often, then let it end. How often at which moment."""
    folder.mkdir(parents=True)
    rng, done = random.Random(seed), Counter[str]()
    with teacher(folder / "teacher.jsonl", moody=moody) as address:
        attempt = soak.start(folder, address, method)
        for number in range(kills):
            name = moments.NAMES[(seed + number) % len(moments.NAMES)]
            if not disturb(soak, attempt, name, folder, rng):
                break
            done[name] += 1
            attempt = soak.start(folder, address, method)
        reached(attempt, lambda: False)
    return done


def soaked(
    soak: Soak, methods: list[str], kills: int, out: Path
) -> Iterator[tuple[dict[str, Any], str]]:
    """Run after run, until there were so many kills; what was found so far, and a line about the last."""
    undisturbed = {}
    for method in methods if soak.max_calls == MAX_CALLS else ():
        folder = out / f"{method}-undisturbed"
        one_run(soak, folder, method, 0, 0, moody=False)
        undisturbed[method] = checker.summary(folder)
        print(
            f"{method}: {undisturbed[method]['answered'].total()} calls without a kill", flush=True
        )
    results, killed_at, number = [], Counter[str](), 0
    while killed_at.total() < kills and number < 4 * kills:
        method, moody = methods[number % len(methods)], number // len(methods) % 2 == 1
        folder = out / f"{number:03d}-{method}{'-moody' if moody else ''}"
        most = min(KILLS_A_RUN, kills - killed_at.total())
        killed_at += one_run(soak, folder, method, most, number, moody=moody)
        found = checker.check(folder, soak.max_calls, None if moody else undisturbed.get(method))
        results.append({"method": method, "moody": moody, **found})
        number += 1
        told = "; ".join(found["broken"]) or "kept"
        line = f"{killed_at.total()}/{kills} {folder.name}: {found['kills']} kills: {told}"
        yield {**total(results), "killed": dict(killed_at)}, line


def total(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The sums over runs, and the runs."""
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


def keep(path: Path, name: str, entry: dict[str, Any]) -> None:
    """Write an entry into the file, beside those of other hosts."""
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**known, name: entry}, indent=1) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--host", choices=("trl", "verl", "openrlhf"), default="trl")
    parser.add_argument("--ranks", type=int, default=1, help="of TRL")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--max-calls", type=int, default=MAX_CALLS)
    parser.add_argument("--methods")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    host = import_module(f"{options.host}_host")
    out = options.out or Path(tempfile.mkdtemp(prefix="soak-"))
    methods = options.methods.split(",") if options.methods else list(host.METHODS)
    parts = options.ranks > 1 or options.host != "trl"
    soak = Soak(host, options.max_calls, options.ranks, parts)
    name = f"{options.host}, {options.ranks} ranks" if options.ranks > 1 else options.host
    if options.max_calls != MAX_CALLS:
        name += f", {options.max_calls} calls"
    found: dict[str, Any] = {"broken": []}
    for found, line in soaked(soak, methods, options.kills, out):
        print(line, flush=True)
        if options.json:
            keep(options.json, name, found)
    print(json.dumps({key: one for key, one in found.items() if key != "of_runs"}, indent=1))
    sys.exit(bool(found["broken"]))


if __name__ == "__main__":
    main()
