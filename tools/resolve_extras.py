"""Resolve each extra of a wheel with uv and pip, on Linux x86_64 with Python 3.11.

    python tools/resolve_extras.py WHEEL [EXTRA ...]      all if none is named; `trl+vllm` is two at once

Nothing is installed. The answers go to benchmarks/results/extras.json and docs/installed-versions.md.
pip has no resolve-only command: it downloads packages without metadata on the index, and gets 300 s for
each extra.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

import extras_page

ROOT = Path(__file__).resolve().parent.parent
TOGETHER = ("trl+vllm", "verl+retrieval", "openrlhf+retrieval", "retrieval+encoder")
"""Extras that belong together in an environment."""
LIMIT_S = 300


def main(wheel: Path, names: list[str]) -> int:
    for tool in ("uv", "pip"):
        extras_page.remember("with", tool, version(tool))
    for name in names or [*extras(), *TOGETHER]:
        found = {"uv": by_uv(wheel, name), "pip": by_pip(wheel, name)}
        extras_page.remember("resolved", name, found)
        for tool, one in found.items():
            said = one.get("error") or f"{len(one['versions'])} packages"
            print(f"{name}, {tool}: {said}, {one['seconds']} s", flush=True)
    failed = [
        name for name, found in extras_page.known("resolved").items() if "error" in found["uv"]
    ]
    return 1 if failed else 0


def version(tool: str) -> str:
    command = {"uv": ["uv"], "pip": [sys.executable, "-m", "pip"]}[tool]
    told = subprocess.run([*command, "--version"], check=True, capture_output=True, text=True)
    return told.stdout.split()[1]


def extras() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [name for name in project["optional-dependencies"] if name != "dev"]


def requirement(wheel: Path, name: str) -> str:
    return f"prompt-coevo[{name.replace('+', ',')}] @ {wheel.resolve().as_uri()}"


def by_uv(wheel: Path, name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "asked.in", Path(folder) / "answered.txt"
        asked.write_text(requirement(wheel, name) + "\n", "utf-8")
        target = ("--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28")
        plain = ("--quiet", "--no-header", "--no-annotate")
        command = ["uv", "pip", "compile", *target, *plain, "-o", answered, asked]
        done, seconds = timed(command, {"UV_FIND_LINKS": ""})
        if done is None or done.returncode:
            return {"error": _last_line(done), "seconds": seconds}
        lines = answered.read_text("utf-8").splitlines()
    pairs = (
        line.split(" ;")[0].split("==") for line in lines if "==" in line and " @ " not in line
    )
    return {"versions": {name: version.strip() for name, version in pairs}, "seconds": seconds}


def by_pip(wheel: Path, name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        dry = ("--dry-run", "--ignore-installed", "--quiet", "--report", report)
        command = [sys.executable, "-m", "pip", "install", *dry, requirement(wheel, name)]
        # An empty text takes the place of what pip's configuration says.
        done, seconds = timed(command, {"PIP_FIND_LINKS": "", "TMPDIR": folder})
        if done is None or done.returncode:
            return {"error": _last_line(done), "seconds": seconds}
        chosen = [one["metadata"] for one in json.loads(report.read_text("utf-8"))["install"]]
    versions = {one["name"].lower().replace("_", "-"): one["version"] for one in chosen}
    versions.pop("prompt-coevo")
    return {"versions": dict(sorted(versions.items())), "seconds": seconds}


def timed(
    command: list[Any], variables: dict[str, str]
) -> tuple[subprocess.CompletedProcess[str] | None, float]:
    """Return the result and the seconds; None after a timeout."""
    began = time.monotonic()
    environment = {**os.environ, **variables}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None, LIMIT_S
    return done, round(time.monotonic() - began, 1)


def _last_line(done: subprocess.CompletedProcess[str] | None) -> str:
    if done is None:
        return f"not finished after {LIMIT_S} s"
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return (errors or lines or [f"exit status {done.returncode}"])[-1][:300]


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    raise SystemExit(main(Path(sys.argv[1]), sys.argv[2:]))
