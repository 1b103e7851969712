"""Run OpenRLHF: `python -m prompt_coevo.adapters.openrlhf` with its own resume (`--ckpt.load_enable`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from job import Job
from ray_attempt import RayAttempt, environment, with_package

from helpers.openrlhf_run import TASKS, OpenRLHFRun, rows
from helpers.openrlhf_world import INSPO

REPEATS: Final = True
"""Whether two runs without a kill are alike."""
EPOCH: Final = 1
"""Any number of steps will do."""
SAVED_EVERY: Final = 2
BATCH: Final = 4
_STREAM: Final = (*("--coevo.stream.tau", "2.0", "--coevo.stream.reply_steps", "1"),)
_WAVES: Final = (
    *("--coevo.p2o.overspend", "never", "--coevo.p2o.tau", "2.0"),
    *("--coevo.p2o.dev_size", "4", "--coevo.p2o.minibatch_size", "2"),
    *("--coevo.p2o.beam_width", "2", "--coevo.p2o.search_budget", "24"),
)
METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    "stream": ("--coevo.method", "stream", *_STREAM),
    "p2o": ("--coevo.method", "p2o", *_WAVES),
    "inspo": ("--coevo.method", "inspo", *INSPO),
}


class Run(OpenRLHFRun):
    """A run with this checkout's package."""

    def _import_path(self, packages: Mapping[str, Path]) -> Path:
        return super()._import_path(with_package(packages))


class Attempt(RayAttempt):
    """One start."""

    def __init__(self, folder: Path, address: str, job: Job) -> None:
        whole = _whole(folder)
        super().__init__(
            Run(
                folder,
                module="prompt_coevo.adapters.openrlhf",
                train=rows(TASKS),
                overrides=[
                    *METHODS[job.method],
                    *("--coevo.reflection.model", "openai/teacher"),
                    *("--coevo.reflection.api_base", address),
                    *("--coevo.reflection.max_calls", str(job.max_calls)),
                    *("--coevo.reflection.concurrency", "4"),
                    *("--coevo.preflight.reflection", "off"),  # the teacher counts its calls
                    f"--train.num_episodes={job.steps * BATCH // len(TASKS)}",
                    f"--ckpt.save_steps={SAVED_EVERY}",
                ],
                env={
                    **environment(folder),
                    "COEVO_TEST_INSTALL": "helpers.soak_in_openrlhf:install",
                    # The stand-in's rows depend on the number of the weights, counted from its start.
                    **({"COEVO_TEST_FIRST_VERSION": str(whole - 1)} if whole else {}),
                },
            )
        )


def _whole(folder: Path) -> int:
    """Return the step of the last whole checkpoint, or 0."""
    latest = folder / "checkpoints" / "_actor" / "latest"
    text = latest.read_text().strip() if latest.exists() else ""
    return int(text.removeprefix("global_step") or 0)


def unfinished(folder: Path) -> Iterable[Path]:
    """Return the checkpoints after the last whole one."""
    whole = _whole(folder)
    return (
        path
        for path in (folder / "checkpoints" / "_actor").glob("global_step*")
        if int(path.name.removeprefix("global_step")) > whole
    )
