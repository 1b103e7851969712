"""Free disk space and memory of this machine, whether it computes in bfloat16, and sizes in words."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

_MEMORY: Final = Path("/proc/meminfo")
_LIMITS: Final = Path("/sys/fs/cgroup")
_CPU: Final = Path("/proc/cpuinfo")


def free_disk(folder: Path) -> int:
    """Return the free bytes on the disk of a folder, which need not exist yet."""
    place = folder.absolute()
    while not place.is_dir():
        place = place.parent
    return shutil.disk_usage(place).free


def free_memory(meminfo: Path = _MEMORY, limits: Path = _LIMITS) -> int | None:
    """Return the free memory of this machine or its container in bytes; None where Linux does not tell."""
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


def computes_bfloat16(cpu: Path = _CPU) -> bool:
    """Return True if this CPU multiplies bfloat16 natively; where it is emulated, float32 is faster."""
    try:
        lines = cpu.read_text("ascii", errors="replace").split("\n")
    except OSError:
        return False
    named = (line for line in lines if line.lower().startswith(("flags", "features")))
    flags = set(next(named, "").split())
    return bool(flags & {"avx512_bf16", "amx_bf16", "bf16"})


def shown(size: int) -> str:
    """Write a number of bytes with a readable unit."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size / 1e3:.1f} kB"


def _inactive(path: Path) -> int:
    """Return the bytes of file pages that the kernel frees when memory is needed."""
    pairs = (line.split() for line in path.read_text("ascii").split("\n"))
    return next((int(pair[1]) for pair in pairs if pair and pair[0] == "inactive_file"), 0)
