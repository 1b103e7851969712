"""Run VeRL: `python -m verl.trainer.main_ppo` with its own resume (`trainer.resume_mode=auto`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from job import Job
from ray_attempt import RayAttempt, environment, with_package

from helpers.verl_run import TASKS, VerlRun, rows
from helpers.verl_world import INSPO

REPEATS: Final = True
"""Whether two runs without a kill are alike."""
EPOCH: Final = 1
"""Any number of steps will do."""
SAVED_EVERY: Final = 2
BATCH: Final = 4
_STREAM: Final = (*("coevo.stream.tau=2.0", "coevo.stream.reply_steps=1"),)
_WAVES: Final = (
    *("coevo.p2o.overspend=never", "coevo.p2o.tau=2.0", "coevo.p2o.dev_size=4"),
    *("coevo.p2o.minibatch_size=2", "coevo.p2o.beam_width=2", "coevo.p2o.search_budget=24"),
)
METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    "stream": ("+coevo=stream", *_STREAM),
    "p2o": ("+coevo=p2o", *_WAVES),
    "inspo": ("+coevo=inspo", *INSPO),
}


class Run(VerlRun):
    """A run with this checkout's package."""

    def _import_path(self, packages: Mapping[str, Path]) -> Path:
        return super()._import_path(with_package(packages))


class Attempt(RayAttempt):
    """One start."""

    def __init__(self, folder: Path, address: str, job: Job) -> None:
        super().__init__(
            Run(
                folder,
                train=rows(TASKS),
                overrides=[
                    *METHODS[job.method],
                    "coevo.reflection.model=openai/teacher",
                    f"coevo.reflection.api_base={address}",
                    f"coevo.reflection.max_calls={job.max_calls}",
                    "coevo.reflection.concurrency=4",
                    "coevo.preflight.reflection=off",  # the teacher counts its calls
                    f"trainer.total_epochs={job.steps * BATCH // len(TASKS)}",
                    f"trainer.save_freq={SAVED_EVERY}",
                ],
                env={
                    **environment(folder),
                    "VERL_USE_EXTERNAL_MODULES": "standins.verl.plugin,helpers.soak_in_verl",
                },
            )
        )


def unfinished(folder: Path) -> Iterable[Path]:
    """Return the checkpoints after the last whole one."""
    latest = folder / "checkpoints" / "latest_checkpointed_iteration.txt"
    whole = int((latest.read_text() if latest.exists() else "") or 0)
    return (
        path
        for path in (folder / "checkpoints").glob("global_step_*")
        if int(path.name.rpartition("_")[2]) > whole
    )
