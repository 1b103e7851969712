"""Where things are in the folder of an index."""

from __future__ import annotations

import re
import shutil
from itertools import pairwise
from pathlib import Path

from prompt_coevo.retrieval.index import manifest

_SHARD = re.compile(r"shard-\d+")


def offsets_path(folder: Path) -> Path:
    """Where each line of the corpus begins."""
    return folder / "offsets.npy"


def draft_path(folder: Path) -> Path:
    """The offsets while they are written."""
    return folder / "offsets.tmp"


def shard_folder(folder: Path, number: int) -> Path:
    """What belongs to one range of rows."""
    return folder / f"shard-{number:03}"


def bm25_folder(folder: Path, number: int) -> Path:
    """The BM25 index of a shard."""
    return shard_folder(folder, number) / "bm25"


def dense_folder(folder: Path, number: int) -> Path:
    """The vectors of a shard."""
    return shard_folder(folder, number) / "dense"


def work_folder(folder: Path) -> Path:
    """Files that are needed while an index is built."""
    return folder / "work"


def request_path(folder: Path) -> Path:
    """What a build that is under way, or was stopped, was asked for."""
    return folder / "building.json"


def shard_rows(passages: int, shards: int) -> list[range]:
    """Ranges of almost the same size."""
    ends = [passages * number // shards for number in range(shards + 1)]
    return [range(first, end) for first, end in pairwise(ends)]


def index_files(folder: Path) -> list[str]:
    """The files of a finished index but for its manifest, by their names inside the folder."""
    inside = (path for shard in _shards(folder) for path in shard.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in [offsets_path(folder), *inside])


def clear(folder: Path) -> None:
    """Remove an index, or what a stopped build left; the manifest goes first, other files stay."""
    for path in (folder / manifest.NAME, request_path(folder), offsets_path(folder)):
        path.unlink(missing_ok=True)
    for inner in (work_folder(folder), *_shards(folder)):
        shutil.rmtree(inner, ignore_errors=True)


def strangers(folder: Path) -> list[str]:
    """The names in the folder that no index has."""
    places = (work_folder, request_path, offsets_path, draft_path)
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
