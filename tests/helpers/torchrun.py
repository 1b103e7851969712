"""Run a script in two or more processes with gloo, as torchrun starts them.

torchrun and its processes fork from one that has imported the heavy libraries, which would otherwise
take most of their time (see `helpers.warm_python`).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from helpers.ray_run import warm_server
from helpers.warm_python import client_command

TESTS = Path(__file__).parents[1]
BENCHMARKS = TESTS.parent / "benchmarks"
_MODULES = (
    "accelerate", "datasets", "numpy", "torch", "torch.distributed.run", "transformers",
    "transformers.models.llama.modeling_llama", "transformers.trainer",
    "trl.trainer.grpo_trainer", "trl.trainer.rloo_trainer",
)  # fmt: skip
_IMPORT_SETTINGS = {
    "ACCELERATE_USE_CPU": "true",
    "CI": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TRL_EXPERIMENTAL_SILENCE": "1",
}


def on_two_ranks(script: Path, *arguments: str) -> str:
    """Run `on_ranks` with two."""
    return on_ranks(2, script, *arguments)


def on_ranks(count: int, script: Path, *arguments: str) -> str:
    """Run a script that may import from `tests` and `benchmarks`; return what all ranks printed.

    An AssertionError has the end of what they wrote to stderr.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PROMPT_COEVO_")}
    paths = [str(TESTS), str(BENCHMARKS), os.environ.get("PYTHONPATH")]
    environment |= {
        **_IMPORT_SETTINGS,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    python = client_command(warm_server(_MODULES, tuple(_IMPORT_SETTINGS.items()))).split()
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={count}"]
    torchrun.append("--no-python")
    run = subprocess.run(
        [*python, *torchrun, *python, str(script), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    return run.stdout
