#!/usr/bin/env python3
"""Records small seeded runs, to show that a change of the code changes no behaviour.

    python tools/record_runs.py --only core --out before/core
    python tools/record_runs.py compare before after

`--only` begins with an environment: core, trl, verl or openrlhf; more of a name stands for the runs that
begin with it. Every run becomes a file of JSON lines: its journal and its states, and what was planned,
sampled, trained on, measured and logged. `compare` exits with 1 if a byte differs.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MODULES = {"core": "core_runs", "trl": "trl_runs", "verl": "ray_runs", "openrlhf": "ray_runs"}
VOLATILE = {
    "time": "when an event was written",
    "took_s": "how long an overlapped reply took",
    "waited_s": "how long training waited for it",
    "seconds": "how long the reflection model took, in a state",
    "reflection_seconds": "the same, as a metric",
    "checksum": "a state's, which covers these seconds",
}
"""All that differs between two recordings of the same code, by name; a metric's is that after the slash."""


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["compare"] and len(arguments) == 3:
        return compare(Path(arguments[1]), Path(arguments[2]))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0, help="the engine's, 0 by default")
    options = parser.parse_args(arguments)
    if options.only.partition("-")[0] not in MODULES:
        parser.error(f"--only must begin with one of {', '.join(MODULES)}")
    return record(options.only, options.out, options.seed)


def record(beginning: str, out: Path, seed: int) -> int:
    """Record the runs whose names begin so, a file for each; 2 if there is none."""
    for name in [name for name in os.environ if name.startswith("PROMPT_COEVO_")]:
        del os.environ[name]
    sys.path[:0] = [str(HERE), str(HERE.parent / "tests"), str(HERE.parent / "benchmarks")]
    print("recording the code of", import_module("prompt_coevo").__file__)
    runs = import_module(MODULES[beginning.partition("-")[0]])
    names = [name for name in runs.RUNS if name.startswith(beginning)]
    out.mkdir(parents=True, exist_ok=True)
    replaced: Counter[str] = Counter()
    for name in names:
        with tempfile.TemporaryDirectory() as folder, logged() as log:
            seen: dict[str, list[Any]] = runs.record(name, Path(folder), seed)
            seen = normalised({**written(Path(folder)), **seen, "log": log}, replaced)
        lines = [json.dumps([kind, item]) + "\n" for kind, items in seen.items() for item in items]
        (out / f"{name}.jsonl").write_text("".join(lines), "utf-8")
        sizes = (f"{len(items)} {kind}" for kind, items in seen.items())
        print(f"{name}: {', '.join(sizes)}", flush=True)
    for name, count in replaced.items():
        print(f"normalised: {name}, {count} times ({VOLATILE[name]})")
    return 0 if names else 2


def written(folder: Path) -> dict[str, list[Any]]:
    """What the engine left in a run's folder, and in its host's checkpoints if these are files of ours."""
    (journal,) = folder.rglob("coevo/events.jsonl")
    views = [journal.with_name("state.json"), *sorted(folder.rglob("coevo_state.json"))]
    return {
        "journal": [json.loads(line) for line in journal.read_text("utf-8").splitlines()],
        "best": [path.read_text("utf-8") for path in journal.parent.glob("best_instruction.txt")],
        "saved": [json.loads(path.read_text("utf-8")) for path in views],
    }


@contextmanager
def logged() -> Iterator[list[str]]:
    """What the package logs in this process, kept from the console."""
    messages: list[str] = []
    handler, logger = logging.Handler(), logging.getLogger("prompt_coevo")
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    yield messages
    logger.removeHandler(handler)


def normalised(value: Any, replaced: Counter[str]) -> Any:
    """A copy without what is volatile; `replaced` counts it."""
    if isinstance(value, list | tuple):
        return [normalised(entry, replaced) for entry in value]
    if not isinstance(value, dict):
        return value
    copy = {}
    for key, entry in value.items():
        name = key.rpartition("/")[2]
        replaced.update([name] if name in VOLATILE else [])
        copy[key] = f"<{name}>" if name in VOLATILE else normalised(entry, replaced)
    return copy


def compare(before: Path, after: Path) -> int:
    """Tell of every run whether its bytes are the same, and if not, what differs first."""
    names = sorted({path.relative_to(at) for at in (before, after) for path in at.rglob("*.jsonl")})
    told = {name: difference(before / name, after / name) for name in names}
    for name, text in told.items():
        print(f"{name}: {text or 'the same'}")
    same = list(told.values()).count(None)
    print(f"{same} of {len(names)} runs are the same")
    return 0 if names and same == len(names) else 1


def difference(before: Path, after: Path) -> str | None:
    """What differs first in two recordings of a run, in words; None if nothing does."""
    for path in (before, after):
        if not path.exists():
            return f"there is no {path}"
    if before.read_bytes() == after.read_bytes():
        return None
    texts = [path.read_text("utf-8").split("\n") for path in (before, after)]
    lines = enumerate(zip_longest(*texts), 1)
    changed = [(line, old, new) for line, (old, new) in lines if old != new]
    line, old, new = changed[0]
    place, was, now = first_difference(json.loads(old or "null"), json.loads(new or "null"))
    return (
        f"{len(changed)} lines differ, first line {line}{place}:\n"
        f"  before: {json.dumps(was)[:400]}\n  after:  {json.dumps(now)[:400]}"
    )


def first_difference(old: Any, new: Any, place: str = "") -> tuple[str, Any, Any]:
    """Where two different JSON values differ first, and what stands there."""
    keys: Any = ()
    if isinstance(old, dict) and isinstance(new, dict) and list(old) == list(new):
        keys = old
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        keys = range(len(old))
    for key in keys:
        if json.dumps(old[key]) != json.dumps(new[key]):
            return first_difference(old[key], new[key], f"{place}[{key!r}]")
    return place, old, new


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
