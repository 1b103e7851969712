"""Install each extra that fits a CPU from the built wheel, alone, and use it.

    python tools/use_extras.py WHEEL [EXTRA ...]      all of tools/uses/ if none is named

The newest fitting versions are used, except for torch, whose CPU build is used. The results go to
benchmarks/results/extras.json and docs/installed-versions.md. Exit status 1 if one failed.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import extras_page

ROOT = Path(__file__).resolve().parent.parent
USES = ROOT / "tools" / "uses"
LIMIT_S = 600


def main(wheel: Path, names: list[str]) -> int:
    failed = False
    for name in names or sorted(path.stem for path in USES.glob("*.py")):
        found = used(wheel.resolve(), name)
        print(f"{name}: {found['came_out']}", flush=True)
        if "error" in found:
            print(found.pop("error"), file=sys.stderr)
            failed = True
        else:
            extras_page.remember("used", name, found)
    return int(failed)


def used(wheel: Path, name: str) -> dict[str, Any]:
    script = USES / f"{name}.py"
    what = ast.get_docstring(ast.parse(script.read_text("utf-8"))) or ""
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "environment" / ("Scripts" if os.name == "nt" else "bin") / "python"
        subprocess.run(["uv", "venv", "--quiet", python.parent.parent], check=True)
        began = time.monotonic()
        install(python, f"prompt-coevo[{name}] @ {wheel.as_uri()}")
        seconds = round(time.monotonic() - began, 1)
        listed = subprocess.run(
            ["uv", "pip", "list", "--python", python, "--format", "json"],
            check=True,
            capture_output=True,
            text=True,
        )
        versions = {one["name"]: one["version"] for one in json.loads(listed.stdout)}
        environment = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PYTHON", "PROMPT_COEVO_"))
        }
        place = Path(folder) / "work"
        place.mkdir()
        # -P: the script's folder has files with names of packages.
        done = subprocess.run(
            [python, "-P", script],
            cwd=place,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    found = {
        "what": what,
        "packages": len(versions) - 1,
        "install_s": seconds,
        "versions": versions,
    }
    if done.returncode:
        return {**found, "came_out": "failed", "error": done.stdout + done.stderr}
    return {**found, "came_out": done.stdout.strip().splitlines()[-1]}


def install(python: Path, requirement: str) -> None:
    """Install with a CPU build of torch; where none is visible, uv must find one itself."""
    command = ["uv", "pip", "install", "--quiet", "--python", python, requirement]
    torch = ["-c", ROOT / "constraints" / "torch.txt"]
    if subprocess.run([*command, *torch], check=False).returncode:
        subprocess.run([*command, *torch, "--torch-backend", "cpu"], check=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    raise SystemExit(main(Path(sys.argv[1]), sys.argv[2:]))
