"""The layout of an index's folder."""

from __future__ import annotations

import re
import shutil
import stat
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Final

from prompt_coevo.retrieval.index import manifest
from prompt_coevo.retrieval.shards import Shard

OFFSETS: Final = "offsets.npy"
"""The offset of each line of the corpus."""
DRAFT: Final = "offsets.tmp"
"""The offsets while they are being written."""
WORK: Final = "work"
"""The folder for files needed only during a build."""
REQUEST: Final = "building.json"
"""The request of a build that is running or was stopped."""
LOCK: Final = "building.lock"
"""The lock held by a running build."""

_SHARD: Final = re.compile(r"shard-\d+")


def shards(folder: Path, ranges: Iterable[range]) -> list[Shard]:
    """Pair ranges of rows with the folders for their files."""
    return [Shard(folder / f"shard-{number:03}", rows) for number, rows in enumerate(ranges)]


def shard_rows(passages: int, count: int) -> list[range]:
    """Split the rows into ranges of almost equal size."""
    ends = [passages * number // count for number in range(count + 1)]
    return [range(first, end) for first, end in pairwise(ends)]


def index_files(folder: Path) -> list[str]:
    """Return the names, inside the folder, of a finished index's files except its manifest."""
    inside = (path for shard in _shards(folder) for path in shard.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in [folder / OFFSETS, *inside])


def bytes_held(folder: Path) -> int:
    """Return the disk space of an index, or of what a stopped build left. Links take no space."""
    if not folder.is_dir():
        return 0
    inside = [path for part in (folder / WORK, *_shards(folder)) for path in part.rglob("*")]
    facts = [path.lstat() for path in (*inside, folder / OFFSETS) if path.is_file()]
    return sum(one.st_size for one in facts if stat.S_ISREG(one.st_mode) and one.st_nlink == 1)


def clear(folder: Path) -> None:
    """Remove an index, or what a stopped build left. The manifest goes first; other files stay."""
    for name in (manifest.NAME, REQUEST, OFFSETS):
        (folder / name).unlink(missing_ok=True)
    for inner in (folder / WORK, *_shards(folder)):
        shutil.rmtree(inner, ignore_errors=True)


def strangers(folder: Path) -> list[str]:
    """Return the names in the folder that belong to no index."""
    ours = {OFFSETS, DRAFT, WORK, REQUEST, LOCK, manifest.NAME, f".{manifest.NAME}.tmp"}
    names = (path.name for path in folder.iterdir())
    return [name for name in names if name not in ours and not _SHARD.fullmatch(name)]


def _shards(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir() and _SHARD.fullmatch(path.name)]
