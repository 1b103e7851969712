"""A script in two processes with gloo, as torchrun starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def on_two_ranks(script: Path, *arguments: str) -> str:
    """Run a script that may import from `tests`; returns what both ranks printed. An AssertionError has
    the end of what they wrote to stderr."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PROMPT_COEVO_")}
    environment |= {
        "ACCELERATE_USE_CPU": "true",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")])),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    run = subprocess.run(
        [*command, str(script), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    return run.stdout
