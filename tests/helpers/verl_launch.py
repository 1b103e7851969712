"""Call our check as hydra does for a single run."""

from __future__ import annotations

from inspect import unwrap
from typing import Any

from verl.trainer.main_ppo import main

from prompt_coevo.adapters.verl.launch import LaunchCheck


def launch(config: Any) -> None:
    """Run the launch check. Raises SystemExit if the run is refused or was a dry run."""
    check = LaunchCheck()
    check.on_run_start(config)
    check.on_job_start(config, task_function=unwrap(main))
