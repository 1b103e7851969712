"""The runs that the laws look at, each done once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from prompt_coevo.errors import CoevoError
from prompt_coevo.testing.door.host import Capability, DoorUnderTest
from prompt_coevo.testing.door.job import Job, settings_for
from prompt_coevo.testing.door.run import Broken, Run


class Laboratory:
    """One door and its runs. `folder` is empty at first; every run gets a folder in it."""

    def __init__(self, door: DoorUnderTest, folder: Path) -> None:
        self.door = door
        self._folder = folder
        self._runs: dict[str, Run | Exception] = {}
        rows = door.material.rows
        self.job = Job(settings_for(door.material), rows, evaluates=self.has("evaluation"))

    def has(self, capability: Capability) -> bool:
        """Whether the host has it."""
        return capability not in self.door.lacks

    @property
    def main(self) -> Run:
        """Two epochs with everything that happens in a run, uninterrupted."""
        return self._once("main", lambda: replace(self.job, saves=True))

    @property
    def silent(self) -> Run:
        """The same without policy rollouts."""
        settings = settings_for(self.door.material, asks=False)
        return self._once("silent", lambda: replace(self.job, settings=settings, saves=True))

    @property
    def judged(self) -> Run:
        """One question always fails, one never does; one has no reward, one has some."""
        ids = [row["id"] for row in self.job.rows]
        rewards = dict(zip(ids, ("zero", "one", "none", "sometimes none"), strict=False))
        if not self.has("rewards of none"):
            rewards = dict(zip(ids, ("zero", "one"), strict=False))
        return self._once("judged", lambda: replace(self.job, rewards=rewards))

    @property
    def late(self) -> Run:
        """Rounds that come back after the next one was sampled."""
        return self._once("late", lambda: replace(self.job, delivery="late"))

    @property
    def in_parts(self) -> Run:
        """Groups that come back in parts, in another order."""
        return self._once("in_parts", lambda: replace(self.job, delivery="in parts"))

    @property
    def killed(self) -> Run:
        """A run that goes on, in the folder of one that was killed, from the first checkpoint."""
        return self._once("killed", self._after_a_kill)

    @property
    def moved(self) -> Run:
        """A run that goes on elsewhere, from the checkpoint at the end of the first epoch."""
        return self._once("moved", lambda: replace(self._from(self._first_epoch()), saves=True))

    @property
    def on_two_ranks(self) -> Run:
        """A run of two processes."""
        return self._once("on_two_ranks", lambda: replace(self.job, ranks=2))

    @property
    def failing(self) -> Run:
        """A run in which no rollout for the engine has a reward: this raises."""
        return self._once("failing", lambda: replace(self.job, failing="everywhere"))

    @property
    def failing_on_a_rank(self) -> Run:
        """A run of two processes, on the second of which rewards for the engine raise."""
        return self._once(
            "failing_on_a_rank", lambda: replace(self.job, ranks=2, failing="on the last rank")
        )

    def refused(self, name: str, job: Job) -> CoevoError:
        """The error that a job is refused with. Raises Broken if it is not."""
        try:
            self.try_run(name, job)
        except CoevoError as error:
            return error
        raise Broken(f"the door did its work with {name.replace('_', ' ')}, which it must refuse")

    def try_run(self, name: str, job: Job) -> Run:
        """Do a job in a folder of its own."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        run = Run(self.door, job, self.door.run(job, folder))
        raised = [line for line in run.record.journal if line["event"] == "plugin_error"]
        if raised:
            raise Broken(f"a call of the door made the kit's plugin fail: {raised[0]['error']}")
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
        """The checkpoint of the main run after so many updates. Raises Broken if it has none."""
        found = self.main.record.checkpoints
        if update not in found:
            raise Broken(f"there is no checkpoint after update {update}, but after {sorted(found)}")
        return found[update]

    # Inside

    def _once(self, name: str, job: Callable[[], Job]) -> Run:
        if name not in self._runs:
            try:
                self._runs[name] = self.try_run(name, job())
            except Exception as error:  # every law that needs this run fails with it
                self._runs[name] = error
        done = self._runs[name]
        if isinstance(done, Exception):
            raise done
        return done

    def _after_a_kill(self) -> Job:
        first, end = min(self.main.record.checkpoints), self._first_epoch()
        shortened = replace(self.job, saves=True, stop_after=end)
        before = self.try_run("killed", shortened)
        return replace(self.job, saves=True, resume_from=before.record.checkpoints[first])

    def _first_epoch(self) -> int:
        return self.main.record.epochs[0]

    def _from(self, update: int) -> Job:
        return replace(self.job, resume_from=self.copy_of(self.checkpoint(update), "moved"))
