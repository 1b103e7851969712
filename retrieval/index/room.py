"""The needs of a build compared with what this machine has free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prompt_coevo.machine import free_disk, free_memory, shown
from prompt_coevo.retrieval.dense.estimate import Foreseen
from prompt_coevo.retrieval.errors import IndexFileError
from prompt_coevo.retrieval.index import layout

_OFFSET_BYTES = 8


@dataclass(frozen=True)
class Plan:
    """The estimate for a build before it begins, in bytes. None means unknown.

    `disk_free` includes what the folder already holds, because that is reused or replaced.
    """

    folder: Path
    passages: int
    foreseen: Foreseen | None
    disk_free: int
    memory_free: int | None

    @property
    def disk(self) -> int | None:
        """Return the most that the folder may hold at once."""
        if self.foreseen is None:
            return None
        return self.foreseen.disk + _OFFSET_BYTES * (self.passages + 1)

    @property
    def fits_memory(self) -> bool:
        """Return False if memory is known to be too small."""
        if self.foreseen is None or self.memory_free is None:
            return True
        return self.foreseen.memory <= self.memory_free

    def refuse_full_disk(self) -> None:
        """Raise IndexFileError if the disk is too small."""
        if self.disk is not None and self.disk > self.disk_free:
            raise IndexFileError(
                f"building {self.folder} takes up to {shown(self.disk)} on its disk, where "
                f"{shown(self.disk_free)} are free; make room, choose a folder on another disk, or a "
                "smaller type with --index"
            )

    def lines(self) -> Sequence[str]:
        """Return the lines to show."""
        if self.foreseen is None:
            return [f"{self.passages} passages; the needs of this build are unknown"]
        free = "an unknown amount" if self.memory_free is None else shown(self.memory_free)
        return [
            f"{self.passages} passages: {self.foreseen.what}",
            *(f"  {name}: {shown(size)}" for name, size in self.foreseen.parts.items()),
            f"  memory, at most: {shown(self.foreseen.memory)} ({free} free)",
            f"  disk, at most: {shown(self.disk or 0)} ({shown(self.disk_free)} free)",
        ]


def plan(folder: Path, passages: int, foreseen: Foreseen | None) -> Plan:
    """Estimate the build of an index of so many passages in `folder`, which may not exist yet."""
    free = free_disk(folder) + layout.bytes_held(folder)
    return Plan(folder, passages, foreseen, free, free_memory())
