"""The smoke's own runs and checks, of a trainer in which device and sampler are stand-ins."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

from helpers.ray_run import RayRun, Result
from prompt_coevo.smoke.parts import Variant
from prompt_coevo.smoke.running import Runs


class OnStandIns(Runs):
    """Starts the trainer by the tests' own means."""

    @abstractmethod
    def started(self, variant: Variant, folder: Path) -> RayRun:
        """Start a run of the variant, below `folder`."""

    @abstractmethod
    def keep(self, run: RayRun, result: Result, folder: Path) -> None:
        """Put what the smoke reads of a finished run into its folder."""

    def _start(self, variant: Variant, folder: Path, until: str = "") -> None:
        folder.mkdir(exist_ok=True)
        with self.started(variant, folder) as run:
            if until:
                run.kill_when(lambda _: any(folder.glob(until)))
            else:
                result = run.wait()
                assert result.returncode == 0, result.tail
                self.keep(run, result, folder)

    def check(self, variant: Variant, folder: Path) -> None:
        """Run the variant's course, and check that all its checks hold."""
        made = list(getattr(self, variant.course)(variant, folder))
        assert [one.said for one in made if not one.holds] == []
