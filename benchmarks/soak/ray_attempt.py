"""Start a trainer on Ray as the tests do, with this checkout's package in its processes.

The engine writes into `checkpoints/coevo`. `tests/helpers/soak_recorder.py` records the decisions of its
processes.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.append(str(Path(__file__).parents[1]))

import prompt_coevo
from helpers.ray_run import RayRun

PACKAGE: Final = {"prompt_coevo": Path(prompt_coevo.__file__).parent}


def environment(folder: Path) -> dict[str, str]:
    return {"OPENAI_API_KEY": "none-needed", "COEVO_TEST_SOAK": str(folder)}


def with_package(packages: Mapping[str, Path]) -> dict[str, Path]:
    """Add the package that this process imports to the run's imports."""
    return {**packages, **PACKAGE}


class RayAttempt:
    """The counterpart of `trl_host.Attempt`; the part that can be killed alone is the driver."""

    def __init__(self, run: RayRun) -> None:
        self._run = run

    def ended(self) -> bool:
        """Tell whether the driver has ended. Raises RuntimeError if it failed by itself."""
        status = self._run.driver.poll()
        if status is None:
            return False
        self._run.clean_up()
        if status:
            raise RuntimeError(f"the run failed by itself:\n{self._run.result().tail}")
        return True

    def kill(self) -> None:
        """Kill all processes."""
        self._run.kill()

    def kill_one(self, rng: random.Random) -> None:
        """Kill the driver; Ray's other processes continue for a while."""
        self._run.driver.kill()
        time.sleep(rng.uniform(0, 2.0))
        self._run.kill()

    def pause(self, seconds: float) -> None:
        """Stop all processes of the run that can be found."""
        pids = self._run.left_over()
        _signal(pids, signal.SIGSTOP)
        time.sleep(seconds)
        _signal(pids, signal.SIGCONT)


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
