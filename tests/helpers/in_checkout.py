"""Run README's commands with the checkout's root as working directory, as a new user does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from helpers.documented import ROOT
from helpers.ray_run import inherited


def readme_command(module: str) -> list[str]:
    """Return the arguments of README's `python -m MODULE ...`, without the trailing dots."""
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith(f"python -m {module} ")]
    return [word for word in line.split()[3:] if word != "..."]


def run_in_checkout(
    module: str, arguments: Sequence[str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run `python -m MODULE` from the root; `folder` is for caches."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**inherited(), "HF_HUB_OFFLINE": "1", "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
