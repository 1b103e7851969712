"""The runs that the laws inspect. Each is done once and shared."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from prompt_coevo.testing.adapter.host import AdapterUnderTest, Capability
from prompt_coevo.testing.adapter.job import Job, RewardRule, settings_for
from prompt_coevo.testing.adapter.run import Run


class _Once:
    """A property that runs a job when a law first asks. If the run fails, it fails every law that asks."""

    def __init__(self, job: Callable[[Laboratory], Job]) -> None:
        self._job = job

    def __get__(self, lab: Laboratory, owner: object = None) -> Run:
        name = self._job.__name__
        if name not in lab.runs:
            try:
                lab.runs[name] = lab.try_run(name, self._job(lab))
            except Exception as error:
                lab.runs[name] = error
        done = lab.runs[name]
        if isinstance(done, Exception):
            raise done
        return done


class Laboratory:
    """One adapter and its runs. `folder` must be empty at first; every run gets a subfolder."""

    def __init__(self, adapter: AdapterUnderTest, folder: Path) -> None:
        self.adapter = adapter
        self.runs: dict[str, Run | Exception] = {}
        """The runs done so far, by name."""
        self._folder = folder
        rows = adapter.material.rows
        self.job = Job(settings_for(adapter.material), rows, evaluates=self.has("evaluation"))

    def has(self, capability: Capability) -> bool:
        """Return True if the trainer has this capability."""
        return capability not in self.adapter.lacks

    @_Once
    def main(self) -> Job:
        """Two uninterrupted epochs with everything that can happen in a run."""
        return replace(self.job, saves=True)

    @_Once
    def silent(self) -> Job:
        """The main run without policy rollouts."""
        settings = settings_for(self.adapter.material, asks=False)
        return replace(self.job, settings=settings, saves=True)

    @_Once
    def judged(self) -> Job:
        """A run with one question that always fails and one that never does; one without rewards, one with
        some."""
        rules: list[RewardRule] = ["zero", "one"]
        if self.has("rewards of none"):
            rules += ["none", "sometimes none"]
        ids = [row["id"] for row in self.job.rows]
        return replace(self.job, rewards=dict(zip(ids, rules, strict=False)))

    @_Once
    def late(self) -> Job:
        """A run whose rounds come back after the next one was sampled."""
        return replace(self.job, delivery="late")

    @_Once
    def in_parts(self) -> Job:
        """A run whose groups come back in parts and in a different order."""
        return replace(self.job, delivery="in parts")

    @_Once
    def killed(self) -> Job:
        """A killed run, resumed in its own folder from the first checkpoint."""
        first, end = min(self.main.record.checkpoints), self.main.record.epochs[0]
        shortened = replace(self.job, saves=True, stop_after=end)
        before = self.try_run("killed", shortened)
        return replace(self.job, saves=True, resume_from=before.record.checkpoints[first])

    @_Once
    def moved(self) -> Job:
        """A run resumed in another folder from the checkpoint at the end of the first epoch."""
        start = self.copy_of(self.checkpoint(self.main.record.epochs[0]), "moved")
        return replace(self.job, saves=True, resume_from=start)

    @_Once
    def on_two_ranks(self) -> Job:
        """A run with two processes."""
        return replace(self.job, ranks=2)

    @_Once
    def failing(self) -> Job:
        """A run in which the reward function raises for every rollout that the engine asked for."""
        return replace(self.job, failing="everywhere")

    @_Once
    def failing_on_a_rank(self) -> Job:
        """A run with two processes; rewards for the engine raise on the second one."""
        return replace(self.job, ranks=2, failing="on the last rank")

    def try_run(self, name: str, job: Job) -> Run:
        """Run a job in its own folder."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        run = Run(self.adapter, job, self.adapter.run(job, folder))
        raised = [line["error"] for line in run.record.journal if line["event"] == "plugin_error"]
        assert not raised, f"a call of the adapter made the kit's plugin fail: {raised[0]}"
        return run

    def steps_in_checkpoint(self, update: int) -> int:
        """Return how many steps the engine had counted when the checkpoint after `update` was written."""
        return update if self.has("steps in checkpoints") else update - 1

    def copy_of(self, checkpoint: Path, name: str) -> Path:
        """Copy a checkpoint, file or folder, out of its run and return the copy."""
        target = self._folder / "copies" / name / checkpoint.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if checkpoint.is_dir():
            return Path(shutil.copytree(checkpoint, target, dirs_exist_ok=True))
        return Path(shutil.copy(checkpoint, target))

    def checkpoint(self, update: int) -> Path:
        """Return the main run's checkpoint after this update."""
        found = self.main.record.checkpoints
        assert update in found, f"there is no checkpoint after update {update}, but {sorted(found)}"
        return found[update]
