"""Compare methods at equal cost: one resumable command for all runs.

    python benchmarks/methods run TIER [--arms A,B] [--seeds N] [--draws N] [--jobs N] [--json FILE]
    python benchmarks/methods run language_model [--model M] [--questions FILE] [...] --json FILE
    python benchmarks/methods render [--json FILE]      fills the pages' tables, draws their pictures
    python benchmarks/methods freeze TIER       writes down the hashes of the settings, before the runs
    python benchmarks/methods replay TIER [--arms A,B]   proves that renamed settings mean the same

TIER is `tabular` (tabular.py), `transformer` (transformer.py, needs TRL), `balanced` (balanced.py: the same
with other shares of easy, medium and hard questions) or `language_model` (language_model.py, needs TRL and
a model). Every arm may use the same number of rollouts: training's, a search's and a verification's. The
published tables take runs with the frozen settings only; a file of your own takes any settings, the same
for all runs of an arm.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))  # for `worlds`
FROZEN: Final = HERE / "frozen.json"
REPLAYED: Final = HERE / "replayed.json"
"""By tier, arm and older hash of settings: the hash of those that a replayed run proved to be the same."""
RESULTS: Final = HERE.parent / "results"
TIERS: Final = ("tabular", "transformer", "balanced", "language_model")
OWN: Final = ("model", "questions", "tokens", "teacher", "rollouts")
"""Options of the tier language_model. Its workers get them as environment variables, like `COEVO_MODEL`."""
UNLIKE: Final = ("seconds", "cpu_seconds", "peak_bytes")
"""Fields that differ between two runs of the same settings."""


def digests(tier: Any) -> dict[str, str]:
    """Return the hash of each arm's current settings."""
    from store import digest

    return {name: digest(values) for name, values in tier.frozen().items()}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="make the runs that are missing")
    run.add_argument("tier", choices=TIERS)
    run.add_argument("--arms", help="separated by commas; all by default")
    run.add_argument("--seeds", type=_some, help="so many, in place of the table's")
    run.add_argument(
        "--draws", type=_some, help="of the world, or splits of the questions: the first so many"
    )
    run.add_argument(
        "--jobs",
        type=_some,
        help="at once; by default one per core, if memory allows, and one with --model or --questions",
    )
    run.add_argument("--json", type=Path, help="the file of lines; the published one by default")
    own = run.add_argument_group("language_model only")
    own.add_argument("--model", help="by its folder or its name on the hub; by default SmolLM2")
    own.add_argument("--questions", help="a file of questions (language_questions.py)")
    own.add_argument("--tokens", help="at most in a completion, with --questions; by default 256")
    own.add_argument(
        "--teacher", help="a litellm model, or a file of instructions to draw from, one a line"
    )
    own.add_argument("--rollouts", help="of a run; by default 2816")
    commands.add_parser("freeze", help="write down the settings").add_argument(
        "tier", choices=TIERS
    )
    again = commands.add_parser("replay", help="make a recorded run of each renamed arm again")
    again.add_argument("tier", choices=TIERS)
    again.add_argument("--arms", help="separated by commas; all by default")
    again.add_argument(
        "--runs",
        type=Path,
        help="runs that the older code made on this machine, with `run --json`; the published ones by "
        "default, whose last digits another processor may not give",
    )
    render = commands.add_parser("render", help="write the pages")
    render.add_argument(
        "--json", type=Path, help="print a table of these runs of the tier language_model instead"
    )
    options = parser.parse_args(arguments)
    for name in OWN:  # what was left there would change settings that nobody gave
        os.environ.pop(_variable(name), None)
    from store import ResultsError, Store

    try:
        if options.command == "run":
            _run(options)
        elif options.command == "freeze":
            _freeze(options.tier)
        elif options.command == "replay":
            arms = options.arms.split(",") if options.arms else None
            _replay(options.tier, arms, options.runs or results_file(options.tier))
        elif options.json:
            import language_page

            if not options.json.is_file():
                raise ResultsError(f"{options.json}: there is no such file")
            print(language_page.summary(Store(options.json, "language_model").runs))
        else:
            import page

            searched = _store("transformer", results_file("transformer_search"))
            page.write({**{name: _store(name) for name in TIERS}, "search": searched})
    except ResultsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        kept = "; finished runs are kept: give the command again to go on"
        print(f"interrupted{kept * (options.command == 'run')}", file=sys.stderr)
        return 130
    return 0


def _some(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def results_file(tier: str) -> Path:
    return RESULTS / f"methods_{tier}.jsonl"


def _store(name: str, file: Path | None = None) -> Any:
    from store import Store

    tier = importlib.import_module(name)
    return Store(file or results_file(name), name, digests(tier), _replayed().get(name))


def _run(options: argparse.Namespace) -> None:
    from runner import run_all
    from store import ResultsError

    for name in OWN:
        if (value := getattr(options, name)) is not None:
            if options.tier != "language_model":
                raise ResultsError(f"--{name} has no effect on the tier {options.tier}")
            if not value.strip():
                raise ResultsError(f"--{name} is empty; give a value, or leave it out")
            os.environ[_variable(name)] = value
    tier = importlib.import_module(options.tier)
    arms = list(tier.ARMS) if options.arms is None else options.arms.split(",")
    if unknown := [name for name in arms if name not in tier.ARMS]:
        raise ResultsError(
            f"there is no arm {', '.join(map(repr, unknown))}; the tier {options.tier} has "
            f"{', '.join(tier.ARMS)}"
        )
    keys = tier.plan(arms, options.seeds, options.draws)
    tier.check(keys)
    current, frozen = digests(tier), _frozen().get(options.tier, {})
    changed = [name for name in arms if current[name] != frozen.get(name)]
    if changed and (options.json is None or _is_published(options.json)):
        freeze = f", or freeze these first: python benchmarks/methods freeze {options.tier}"
        raise ResultsError(
            f"the published runs of {', '.join(changed)} have other settings: give --json a file of your "
            f"own{'' if any(getattr(options, name) for name in OWN) else freeze}"
        )
    usual = getattr(tier, "jobs", lambda: os.cpu_count() or 1)
    run_all(keys, tier.run, _store(options.tier, options.json), options.jobs or usual())


def _variable(option: str) -> str:
    return f"COEVO_{option.upper()}"


def _is_published(file: Path) -> bool:
    return file.resolve().parent == RESULTS and file.name.startswith("methods_")


def _freeze(name: str) -> None:
    tier = importlib.import_module(name)
    frozen = {**_frozen(), name: digests(tier)}
    FROZEN.write_text(json.dumps(frozen, indent=1) + "\n", "utf-8")


def _replay(name: str, arms: Sequence[str] | None, runs: Path) -> None:
    """Repeat one of the runs for each arm whose settings have another hash now.

    Raises ResultsError if a run's results differ from the recorded ones.
    """
    from store import ResultsError

    tier = importlib.import_module(name)
    current = digests(tier)
    proved: set[tuple[str, str]] = set()
    for line in runs.read_text("utf-8").splitlines():
        run = json.loads(line)
        arm, was = run.get("arm"), run.get("settings")
        known = _replayed().get(name, {}).get(arm, {})
        if arm not in current or (arms is not None and arm not in arms) or (arm, was) in proved:
            continue
        if current[arm] in (was, known.get(was)):
            continue
        found = json.loads(json.dumps(tier.run(run["world"], arm, run["seed"], run["draw"])))
        different = [
            key
            for key, value in found.items()
            if key not in UNLIKE and not _close(value, run.get(key))
        ]
        if different:
            raise ResultsError(
                f"{arm}, seed {run['seed']}: {', '.join(different)} came out otherwise than recorded, so "
                "its settings do not mean the same; make its runs anew"
            )
        proved.add((arm, was))
        whole = _replayed()
        whole.setdefault(name, {}).setdefault(arm, {})[was] = current[arm]
        REPLAYED.write_text(json.dumps(whole, indent=1) + "\n", "utf-8")
        print(
            f"{arm}: {was} is {current[arm]} (seed {run['seed']}, draw {run['draw']})", flush=True
        )


def _close(found: Any, recorded: Any) -> bool:
    """Compare up to numbers' last digits, because other processors sum in another order."""
    if isinstance(found, dict) and isinstance(recorded, dict):
        keys = found.keys() | recorded.keys()
        return all(_close(found.get(key), recorded.get(key)) for key in keys)
    if isinstance(found, list) and isinstance(recorded, list):
        pairs = zip(found, recorded, strict=False)
        return len(found) == len(recorded) and all(_close(*pair) for pair in pairs)
    if isinstance(found, float) and isinstance(recorded, int | float):
        return math.isclose(found, recorded, rel_tol=1e-6, abs_tol=1e-9)
    return bool(found == recorded)


def _replayed() -> dict[str, dict[str, dict[str, str]]]:
    replayed: dict[str, dict[str, dict[str, str]]] = json.loads(REPLAYED.read_text("utf-8"))
    return replayed


def _frozen() -> dict[str, dict[str, str]]:
    frozen: dict[str, dict[str, str]] = json.loads(FROZEN.read_text("utf-8"))
    return frozen


if __name__ == "__main__":
    sys.exit(main())
