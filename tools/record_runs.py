#!/usr/bin/env python3
"""Record small seeded runs, to show that a change of the code changes no behaviour.

    python tools/record_runs.py --only core --out before/core
    python tools/record_runs.py compare before after

`--only` begins with an environment: core, trl, verl or openrlhf; a longer prefix selects the runs that
begin with it. Every run becomes a file of JSON lines: its journal and its states, and what was planned,
sampled, trained on, measured and logged. `compare` exits with 1 if something differs other than the names
in `renamed.toml`.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RENAMED: list[dict[str, Any]] = tomllib.loads((HERE / "renamed.toml").read_text("utf-8"))["renamed"]
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
    """Record the runs with this prefix, a file for each; return 2 if there is none."""
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
        (out / f"{name}.jsonl").write_text("".join(lines).replace(folder, "FOLDER"), "utf-8")
        sizes = (f"{len(items)} {kind}" for kind, items in seen.items())
        print(f"{name}: {', '.join(sizes)}", flush=True)
    for name, count in replaced.items():
        print(f"normalised: {name}, {count} times ({VOLATILE[name]})")
    return 0 if names else 2


def written(folder: Path) -> dict[str, list[Any]]:
    """Return the engine's files in a run's folder, and in its host's checkpoints if these are files of
    ours."""
    (journal,) = folder.rglob("coevo/events.jsonl")
    views = [journal.with_name("state.json"), *sorted(folder.rglob("coevo_state.json"))]
    return {
        "journal": [json.loads(line) for line in journal.read_text("utf-8").splitlines()],
        "best": [path.read_text("utf-8") for path in journal.parent.glob("best_instruction.txt")],
        "saved": [json.loads(path.read_text("utf-8")) for path in views],
    }


@contextmanager
def logged() -> Iterator[list[str]]:
    """Record what the package logs in this process, and keep it off the console."""
    messages: list[str] = []
    handler, logger = logging.Handler(), logging.getLogger("prompt_coevo")
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    yield messages
    logger.removeHandler(handler)


def normalised(value: Any, replaced: Counter[str]) -> Any:
    """Return a copy without what is volatile; `replaced` counts it."""
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
    """Report for every run whether only names differ, and if not, the first difference."""
    pairs = {new_place(path, before): path for path in before.rglob("*.jsonl")}
    new = {path.relative_to(after): path for path in after.rglob("*.jsonl")}
    names = sorted({*pairs, *new})
    told = {name: difference(pairs.get(name, before / name), after / name) for name in names}
    for name, text in told.items():
        print(f"{name}: {text or 'the same'}")
    same = list(told.values()).count(None)
    print(f"{same} of {len(names)} runs are the same")
    return 0 if names and same == len(names) else 1


def difference(before: Path, after: Path) -> str | None:
    """Describe the first difference between two recordings of a run, or return None."""
    for path in (before, after):
        if not path.exists():
            return f"there is no {path}"
    if before.read_bytes() == after.read_bytes():
        return None
    rule = rule_for(before)
    olds = [renamed(json.loads(line), rule) for line in before.read_text("utf-8").splitlines()]
    kept = {"gone": rule.get("gone", ())}
    news = [renamed(json.loads(line), kept) for line in after.read_text("utf-8").splitlines()]
    lines = enumerate(zip_longest(olds, news), 1)
    changed = [(line, old, new) for line, (old, new) in lines if json.dumps(old) != json.dumps(new)]
    if not changed:
        return None
    line, old, new = changed[0]
    place, was, now = first_difference(old, new)
    return (
        f"{len(changed)} lines differ, first line {line}{place}:\n"
        f"  before: {json.dumps(was)[:400]}\n  after:  {json.dumps(now)[:400]}"
    )


def rule_for(recording: Path) -> dict[str, Any]:
    """Return the first rule of `renamed.toml` for a run, empty if there is none."""
    return next((rule for rule in RENAMED if fnmatch(recording.stem, rule["runs"])), {})


def new_place(recording: Path, folder: Path) -> Path:
    """Return where in its folder a recording would be today."""
    name = rule_for(recording).get("name", recording.stem)
    return recording.relative_to(folder).with_stem(name)


def renamed(value: Any, rule: dict[str, Any]) -> Any:
    """Return a copy under today's names, with sorted keys. Parse texts that are JSON objects, as in a
    state."""
    if isinstance(value, list):
        return [renamed(entry, rule) for entry in value]
    if isinstance(value, str):
        if value.startswith("{"):
            try:
                return renamed(json.loads(value), rule)
            except json.JSONDecodeError:
                pass
        return replaced_in(value, rule.get("texts", {}))
    if not isinstance(value, dict):
        return value
    named = {replaced_in(key, rule.get("keys", {})): entry for key, entry in value.items()}
    left = sorted(named.keys() - set(rule.get("gone", ())))
    return {key: renamed(named[key], rule) for key in left}


def replaced_in(text: str, patterns: dict[str, str]) -> str:
    for pattern, new in patterns.items():
        text = re.sub(pattern, new, text)
    return text


def first_difference(old: Any, new: Any, place: str = "") -> tuple[str, Any, Any]:
    """Describe where two different JSON values differ first, and how."""
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
