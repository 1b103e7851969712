"""Where things are in the folder of an index."""

from __future__ import annotations

import re
import shutil
import stat
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from prompt_coevo.retrieval.index import manifest
from prompt_coevo.retrieval.shards import Shard

_SHARD = re.compile(r"shard-\d+")


def offsets_path(folder: Path) -> Path:
    """Where each line of the corpus begins."""
    return folder / "offsets.npy"


def draft_path(folder: Path) -> Path:
    """The offsets while they are written."""
    return folder / "offsets.tmp"


def shards(folder: Path, ranges: Iterable[range]) -> list[Shard]:
    """Ranges of rows, each with the folder for what belongs to it."""
    return [Shard(folder / f"shard-{number:03}", rows) for number, rows in enumerate(ranges)]


def work_folder(folder: Path) -> Path:
    """Files that are needed while an index is built."""
    return folder / "work"


def request_path(folder: Path) -> Path:
    """What a build that is under way, or was stopped, was asked for."""
    return folder / "building.json"


def lock_path(folder: Path) -> Path:
    """What the build that is under way holds."""
    return folder / "building.lock"


def shard_rows(passages: int, count: int) -> list[range]:
    """Ranges of almost the same size."""
    ends = [passages * number // count for number in range(count + 1)]
    return [range(first, end) for first, end in pairwise(ends)]


def index_files(folder: Path) -> list[str]:
    """The files of a finished index but for its manifest, by their names inside the folder."""
    inside = (path for shard in _shards(folder) for path in shard.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in [offsets_path(folder), *inside])


def bytes_held(folder: Path) -> int:
    """What an index, or what a stopped build left of one, takes on its disk. Links take nothing."""
    if not folder.is_dir():
        return 0
    inside = [path for part in (work_folder(folder), *_shards(folder)) for path in part.rglob("*")]
    facts = [path.lstat() for path in (*inside, offsets_path(folder)) if path.is_file()]
    return sum(one.st_size for one in facts if stat.S_ISREG(one.st_mode) and one.st_nlink == 1)


def clear(folder: Path) -> None:
    """Remove an index, or what a stopped build left; the manifest goes first, other files stay."""
    for path in (folder / manifest.NAME, request_path(folder), offsets_path(folder)):
        path.unlink(missing_ok=True)
    for inner in (work_folder(folder), *_shards(folder)):
        shutil.rmtree(inner, ignore_errors=True)


def strangers(folder: Path) -> list[str]:
    """The names in the folder that no index has."""
    places = (work_folder, request_path, lock_path, offsets_path, draft_path)
    ours = {place(folder) for place in places}
    return [
        path.name
        for path in folder.iterdir()
        if path not in ours
        and not path.name.startswith(manifest.NAME)
        and not _SHARD.fullmatch(path.name)
    ]


def _shards(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir() and _SHARD.fullmatch(path.name)]
