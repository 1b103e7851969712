"""Fuzz every parser and loader with coverage guidance, and count the inputs.

    pip install atheris
    python benchmarks/fuzz.py [core] [retrieval] [--only NAME...] [--inputs 40000] [--seed 1] [--json FILE]

The targets are those of `tests/fuzz`: functions of bytes that raise nothing. Each is fuzzed in a separate
process, with `inputs` inputs times its weight; one that raises ends there, and the input is in the
results. With `--plain`, without atheris, inputs are made without coverage guidance, as in the tests. With
`--json` results are merged into the file's results for other targets.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fuzz.target import Target

ROOT: Final = Path(__file__).resolve().parent.parent
TESTS: Final = ROOT / "tests"
GROUPS: Final = ("core", "retrieval")
_LONGEST: Final = 4096
_TIMEOUT_S: Final = 60
_RAISED: Final = "=== Uncaught Python exception: ==="
_DONE: Final = re.compile(r"Done (\d+) runs")
_COVERAGE: Final = re.compile(r"cov: (\d+) ft: \d+ corp: (\d+)")


def targets(module: str) -> dict[str, Target]:
    """Import a module and return its targets."""
    found: dict[str, Target] = importlib.import_module(module).TARGETS
    return found


def fuzz_guided(module: str, name: str, count: int, seed: int, folder: Path) -> None:
    """Fuzz one target in this process, which ends with it."""
    import atheris  # type: ignore[import-not-found, unused-ignore]

    with atheris.instrument_imports(include=["prompt_coevo"], enable_loader_override=False):
        target = targets(module)[name]
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, data in enumerate(target.seeds):
        (corpus / str(number)).write_bytes(data)
    options = [
        f"-runs={count}",
        f"-seed={seed}",
        f"-max_len={_LONGEST}",
        f"-timeout={_TIMEOUT_S}",
        f"-artifact_prefix={folder}/",
        "-rss_limit_mb=4096",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], target.run)
    atheris.Fuzz()


def fuzz_plain(module: str, name: str, count: int, seed: int, folder: Path) -> None:
    """Fuzz one target without guidance, as in the tests."""
    from fuzz.target import inputs

    target, done = targets(module)[name], 0
    for data in inputs(target, count, seed):
        (folder / "crash-last").write_bytes(data)
        target.run(data)
        done += 1
    (folder / "crash-last").unlink(missing_ok=True)
    print(f"Done {done} runs", file=sys.stderr)


def fuzz_one(name: str, target: Target, options: argparse.Namespace) -> dict[str, Any]:
    """Fuzz a target in a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        count = int(options.inputs * target.weight)
        words = [target.run.__module__, "--only", name, "--here", folder, "--inputs", str(count)]
        words += ["--seed", str(options.seed), *(["--plain"] if options.plain else [])]
        started, used = time.monotonic(), os.times()
        command = [sys.executable, "-u", __file__, *words]  # unflushed output is lost
        ended = subprocess.run(
            command,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # a traceback is split over both
            text=True,
            errors="replace",
        )
        seconds, now = time.monotonic() - started, os.times()
        said = ended.stdout
        kept = [path.read_bytes() for path in Path(folder).iterdir() if path.is_file()]
    cpu = sum(now[2:4]) - sum(used[2:4])
    done, reached = _DONE.search(said), _COVERAGE.findall(said)
    result: dict[str, Any] = {
        "inputs": int(done[1]) if done else 0,
        "findings": int(bool(ended.returncode)),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
    }
    if reached:
        result |= {"coverage": int(reached[-1][0]), "corpus": int(reached[-1][1])}
    if ended.returncode:
        result |= {"input": kept[0].hex() if kept else None, "error": _error(said)}
    return result


def _error(said: str) -> str:
    """Return the end of the traceback, without the fuzzer's own lines."""
    told = said.partition(_RAISED)[2].partition("\n==")[0] or said
    return "\n".join([line for line in told.splitlines() if line.strip()][-12:])


def machine(plain: bool) -> dict[str, Any]:
    return {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "fuzzer": "plain" if plain else f"atheris {importlib.metadata.version('atheris')}",
    }


def version() -> str:
    """Return the commit that was fuzzed."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()


def show(results: dict[str, Any]) -> None:
    for name, one in results.items():
        reached = f"{one['coverage']:6} edges" if "coverage" in one else ""
        found = "a finding" if one["findings"] else ""
        print(f"{name:24}{one['inputs']:9} inputs{one['seconds']:8.1f} s {reached} {found}")
    total = sum(one["inputs"] for one in results.values())
    findings = sum(one["findings"] for one in results.values())
    print(f"{len(results)} targets, {total} inputs, {findings} findings")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("groups", nargs="*", help=" ".join(GROUPS))
    parser.add_argument("--only", nargs="*", default=[], help="targets by their names")
    parser.add_argument("--inputs", type=int, default=40_000, help="for a target of weight 1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="without atheris")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(TESTS))
    if options.here is not None:
        fuzz = fuzz_plain if options.plain else fuzz_guided
        fuzz(options.groups[0], options.only[0], options.inputs, options.seed, options.here)
        return
    known = options.json is not None and options.json.exists()
    results = json.loads(options.json.read_text())["results"] if known else {}
    ran: dict[str, Any] = {}
    for group in options.groups or GROUPS:
        for name, target in targets(f"fuzz.{group}.every").items():
            if name in options.only or not options.only:
                ran[name] = fuzz_one(name, target, options)
                show({name: ran[name]})
                if "error" in ran[name]:
                    print(ran[name]["error"])
                results[name] = ran[name]
                if options.json is not None:
                    about = {"version": version(), "machine": machine(options.plain)}
                    totals = {
                        "inputs": sum(one["inputs"] for one in results.values()),
                        "findings": sum(one["findings"] for one in results.values()),
                    }
                    text = json.dumps({**about, **totals, "results": results}, indent=1)
                    options.json.write_text(text + "\n")
    show(ran)
    sys.exit(any(one["findings"] for one in ran.values()))


if __name__ == "__main__":
    main()
