"""The runs that the laws look at, each done once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from prompt_coevo.testing.adapter.host import AdapterUnderTest, Capability
from prompt_coevo.testing.adapter.job import Job, RewardRule, settings_for
from prompt_coevo.testing.adapter.run import Run


class _Once:
    """A property: the run of a job, done when a law first asks; a failed one fails every law that asks."""

    def __init__(self, job: Callable[[Laboratory], Job]) -> None:
        self._job = job
        self.__doc__ = job.__doc__

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
    """One adapter and its runs. `folder` is empty at first; every run gets a folder in it."""

    def __init__(self, adapter: AdapterUnderTest, folder: Path) -> None:
        self.adapter = adapter
        self.runs: dict[str, Run | Exception] = {}
        """What was done so far, by name."""
        self._folder = folder
        rows = adapter.material.rows
        self.job = Job(settings_for(adapter.material), rows, evaluates=self.has("evaluation"))

    def has(self, capability: Capability) -> bool:
        """Whether the host has it."""
        return capability not in self.adapter.lacks

    @_Once
    def main(self) -> Job:
        """Two epochs with everything that happens in a run, uninterrupted."""
        return replace(self.job, saves=True)

    @_Once
    def silent(self) -> Job:
        """The same without policy rollouts."""
        settings = settings_for(self.adapter.material, asks=False)
        return replace(self.job, settings=settings, saves=True)

    @_Once
    def judged(self) -> Job:
        """One question always fails, one never does; one has no reward, one has some."""
        rules: list[RewardRule] = ["zero", "one"]
        if self.has("rewards of none"):
            rules += ["none", "sometimes none"]
        ids = [row["id"] for row in self.job.rows]
        return replace(self.job, rewards=dict(zip(ids, rules, strict=False)))

    @_Once
    def late(self) -> Job:
        """Rounds that come back after the next one was sampled."""
        return replace(self.job, delivery="late")

    @_Once
    def in_parts(self) -> Job:
        """Groups that come back in parts, in another order."""
        return replace(self.job, delivery="in parts")

    @_Once
    def killed(self) -> Job:
        """A run that goes on, in the folder of one that was killed, from the first checkpoint."""
        first, end = min(self.main.record.checkpoints), self.main.record.epochs[0]
        shortened = replace(self.job, saves=True, stop_after=end)
        before = self.try_run("killed", shortened)
        return replace(self.job, saves=True, resume_from=before.record.checkpoints[first])

    @_Once
    def moved(self) -> Job:
        """A run that goes on elsewhere, from the checkpoint at the end of the first epoch."""
        start = self.copy_of(self.checkpoint(self.main.record.epochs[0]), "moved")
        return replace(self.job, saves=True, resume_from=start)

    @_Once
    def on_two_ranks(self) -> Job:
        """A run of two processes."""
        return replace(self.job, ranks=2)

    @_Once
    def failing(self) -> Job:
        """A run in which no rollout for the engine has a reward: this raises."""
        return replace(self.job, failing="everywhere")

    @_Once
    def failing_on_a_rank(self) -> Job:
        """A run of two processes, on the second of which rewards for the engine raise."""
        return replace(self.job, ranks=2, failing="on the last rank")

    def try_run(self, name: str, job: Job) -> Run:
        """Do a job in a folder of its own."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        run = Run(self.adapter, job, self.adapter.run(job, folder))
        raised = [line["error"] for line in run.record.journal if line["event"] == "plugin_error"]
        assert not raised, f"a call of the adapter made the kit's plugin fail: {raised[0]}"
        return run

    def steps_in_checkpoint(self, update: int) -> int:
        """How many steps were over for the engine when the checkpoint after so many updates was written."""
        return update if self.has("steps in checkpoints") else update - 1

    def copy_of(self, checkpoint: Path, name: str) -> Path:
        """A copy of a checkpoint, file or folder, away from its run."""
        target = self._folder / "copies" / name / checkpoint.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if checkpoint.is_dir():
            return Path(shutil.copytree(checkpoint, target, dirs_exist_ok=True))
        return Path(shutil.copy(checkpoint, target))

    def checkpoint(self, update: int) -> Path:
        """The checkpoint of the main run after so many updates."""
        found = self.main.record.checkpoints
        assert update in found, f"there is no checkpoint after update {update}, but {sorted(found)}"
        return found[update]
