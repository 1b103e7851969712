"""Kill runs of a real trainer repeatedly, and check the files they leave.

    python benchmarks/soak [--host trl] [--ranks 2] [--kills 200] [--max-calls 12] [--steps 24]
        [--methods stream,p2o,inspo,both] [--lose-checkpoints] [--new-folders] [--out DIR]
        [--json benchmarks/results/soak.json]

The trainer is TRL's GRPOTrainer on this many ranks, or `verl` or `openrlhf` on the tests' stand-ins; it
trains the demo's small policy. The reflection model is a separate server, reached through litellm, that
answers equal prompts alike in every other run, and never alike in the others. A run is killed (SIGKILL)
several times: at any moment, or during a call, or while a checkpoint is being written; each time it is
restarted from its last whole checkpoint. Before some kills it is stopped for a while (SIGSTOP). With
`--lose-checkpoints` the last checkpoint is sometimes lost in a kill; with `--new-folders` each attempt has
another output folder. With several ranks, or under Ray, half of the kills hit one rank, or the driver,
alone, and the rest a moment later.

`checker.py` has the invariants. It reads the run's ledger and journal, the teacher's log, and the notes of
`tests/helpers/soak_recorder.py` around the engine (under Ray in the engine's process): every plan of a
round, and every reply that comes out of the ledger. Under every trainer, plans and events of a repeated
round are compared with those before the kill, and, unless the teacher is moody or the budget binds, with
those of an undisturbed run. Under Ray the stand-ins give each request its own random numbers, so that a
repeated round is sampled as before.

Needs the trainer's environment. The file gets one entry for each host, number of ranks and budget.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))

from job import UNBOUND, Job
from soaking import Soak, soaked

_STEPS: Final = {"trl": 24, "verl": 8, "openrlhf": 8}


def keep(path: Path, name: str, entry: dict[str, Any]) -> None:
    """Write an entry into the file, beside those of other hosts."""
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**known, name: entry}, indent=1) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--host", choices=("trl", "verl", "openrlhf"), default="trl")
    parser.add_argument("--ranks", type=int, default=1, help="of TRL")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--max-calls", type=int, default=UNBOUND)
    parser.add_argument("--steps", type=int, help="of a run; as a rule 24, under Ray 8")
    parser.add_argument("--methods")
    parser.add_argument("--lose-checkpoints", action="store_true", help="with TRL")
    parser.add_argument("--new-folders", action="store_true", help="with TRL")
    parser.add_argument("--out", type=Path, help="an empty or new folder")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.out and options.out.exists() and any(options.out.iterdir()):
        parser.error(f"{options.out} is not empty: name another folder")
    host = import_module(f"{options.host}_host")
    out = options.out or Path(tempfile.mkdtemp(prefix="soak-"))
    methods = options.methods.split(",") if options.methods else list(host.METHODS)
    steps = options.steps or _STEPS[options.host]
    jobs = [
        Job(method, options.max_calls, options.ranks, steps, options.new_folders)
        for method in methods
    ]
    if steps % host.EPOCH:
        parser.error(f"--steps must be a multiple of {host.EPOCH}, the steps of an epoch")
    parts = options.ranks > 1 or options.host != "trl"
    soak = Soak(host, parts, options.lose_checkpoints)
    name = f"{options.host}, {options.ranks} ranks" if options.ranks > 1 else options.host
    if options.max_calls != UNBOUND:
        name += f", {options.max_calls} calls"
    if options.lose_checkpoints:
        name += ", lost checkpoints"
    if options.new_folders:
        name += ", new folders"
    found: dict[str, Any] = {"broken": []}
    for found, line in soaked(soak, jobs, options.kills, out):
        print(line, flush=True)
        if options.json:
            keep(options.json, name, found)
    print(json.dumps({key: one for key, one in found.items() if key != "of_runs"}, indent=1))
    sys.exit(bool(found["broken"]))


if __name__ == "__main__":
    main()
