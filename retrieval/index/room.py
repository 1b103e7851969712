"""What a build will take next to what this machine has free."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prompt_coevo.retrieval.dense.estimate import Foreseen
from prompt_coevo.retrieval.errors import IndexFileError
from prompt_coevo.retrieval.index import layout

_OFFSET_BYTES = 8
_MEMORY = Path("/proc/meminfo")
_LIMITS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Plan:
    """A build before it begins, in bytes. What is not known is None.

    `disk_free` counts what the folder holds already: it is used again, or replaced.
    """

    folder: Path
    passages: int
    foreseen: Foreseen | None
    disk_free: int
    memory_free: int | None

    @property
    def disk(self) -> int | None:
        """What the folder may hold at once."""
        if self.foreseen is None:
            return None
        return self.foreseen.disk + _OFFSET_BYTES * (self.passages + 1)

    @property
    def fits_memory(self) -> bool:
        """False if it is known that memory is too small."""
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
        """For the reader."""
        if self.foreseen is None:
            return [f"{self.passages} passages; what the build takes is not known beforehand"]
        free = "an unknown amount" if self.memory_free is None else shown(self.memory_free)
        return [
            f"{self.passages} passages: {self.foreseen.what}",
            *(f"  {name}: {shown(size)}" for name, size in self.foreseen.parts.items()),
            f"  memory, at most: {shown(self.foreseen.memory)} ({free} free)",
            f"  disk, at most: {shown(self.disk or 0)} ({shown(self.disk_free)} free)",
        ]


def plan(folder: Path, passages: int, foreseen: Foreseen | None) -> Plan:
    """What is known before an index of so many passages is built in `folder`, which may be missing."""
    place = folder.absolute()
    while not place.is_dir():
        place = place.parent
    free = shutil.disk_usage(place).free + layout.bytes_held(folder)
    return Plan(folder, passages, foreseen, free, free_memory())


def free_memory(meminfo: Path = _MEMORY, limits: Path = _LIMITS) -> int | None:
    """What may be used of this machine's memory, or of its container's; None where Linux does not say."""
    try:
        lines = meminfo.read_text("ascii").split("\n")
        kib = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None
    try:
        most, used = (int((limits / f"memory.{name}").read_text()) for name in ("max", "current"))
        cache = _inactive(limits / "memory.stat")
    except (OSError, ValueError):  # no container, or one without a limit: "max"
        return 1024 * kib
    return min(1024 * kib, max(0, most - used + cache))


def shown(size: int) -> str:
    """A number of bytes for a reader."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size / 1e3:.1f} kB"


def _inactive(path: Path) -> int:
    """Pages of files that are given back when memory is wanted."""
    pairs = (line.split() for line in path.read_text("ascii").split("\n"))
    return next((int(pair[1]) for pair in pairs if pair and pair[0] == "inactive_file"), 0)
