"""A corpus in Search-R1's format, read from disk passage by passage.

Every line is `{"id": str, "contents": str}`; the first line of the contents is the quoted title. Integer
ids are read as text. Other fields are passed on unchanged.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from array import array
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from prompt_coevo.retrieval.arrays import open_array
from prompt_coevo.retrieval.errors import CorpusError, IndexFileError

Progress: TypeAlias = Callable[[int, int], None]
"""Called now and then with the amount done and the total."""


class Steps:
    """Sums up progress and reports it to a callback, if there is one."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def advance(self, count: int) -> None:
        self._done += count
        if self._progress:
            self._progress(self._done, self._total)


_REPORT_EVERY = 1 << 24  # bytes


class Passage(NamedTuple):
    """One row of the corpus; `fields` are its other fields."""

    id: str
    contents: str
    fields: Mapping[str, Any] = MappingProxyType({})


class CorpusFacts(NamedTuple):
    """Facts gathered in one pass over a corpus."""

    bytes: int
    sha256: str
    passages: int


class Corpus:
    """A corpus file and the offsets of its lines; neither is loaded into memory.

    Safe to read from several threads. Raises CorpusError if the corpus cannot be read, IndexFileError if
    the offsets do not fit it.
    """

    def __init__(self, path: Path, offsets: npt.NDArray[np.int64]) -> None:
        self.path = path
        self._offsets = offsets
        try:
            with path.open("rb") as file:
                self._text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise CorpusError(f"the corpus {path} cannot be read: {error}") from None
        size = offsets[-1] if len(offsets) else 0
        if size != len(self._text):
            raise IndexFileError(
                f"the offsets are for a corpus of {size} bytes, but {path} has "
                f"{len(self._text)}; build the index again"
            )

    @classmethod
    def open(cls, path: Path, offsets_path: Path) -> Corpus:
        """Open a corpus with the offsets that `write_offsets` wrote for it."""
        return cls(path, open_array(offsets_path))

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def passage(self, row: int) -> Passage:
        """Return the passage in this row, counted from 0. Raises IndexError, and CorpusError if it is
        damaged."""
        if not 0 <= row < len(self):
            raise IndexError(f"the corpus {self.path} has {len(self)} passages, but no row {row}")
        line = self._text[self._offsets[row] : self._offsets[row + 1]]
        try:
            found = json.loads(line)
            return Passage(str(found.pop("id")), found.pop("contents"), found)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
            raise CorpusError(
                f"the corpus {self.path} is damaged: row {row} is not what it was; `prompt-coevo "
                "retrieval verify` compares every byte"
            ) from None

    def passages(self, rows: range | None = None) -> Iterator[Passage]:
        """Yield the passages of some rows, by default of all.

        Pages already read are released, because mapped pages would count as this process's memory.
        """
        read = 0
        for row in range(len(self)) if rows is None else rows:
            yield self.passage(row)
            read += int(self._offsets[row + 1] - self._offsets[row])
            if read >= _REPORT_EVERY:
                read = 0
                self._forget()
        self._forget()

    def _forget(self) -> None:
        if hasattr(mmap, "MADV_DONTNEED"):
            self._text.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Release the file; nothing can be read afterwards."""
        self._text.close()


def write_offsets(path: Path, out: Path, progress: Progress | None = None) -> CorpusFacts:
    """Check every line of a corpus and write to `out` where each line begins and the last one ends.

    Raises CorpusError, with the line number, for a line that is not a passage and for a duplicate id.
    """
    offsets, id_hashes, digest = array("q", [0]), bytearray(), hashlib.sha256()
    reported = 0
    for number, line in enumerate(_lines(path), 1):
        digest.update(line)
        id_hashes += _short_hash(_checked(line, path, number).id)
        offsets.append(offsets[-1] + len(line))
        if progress and offsets[-1] - reported >= _REPORT_EVERY:
            reported = offsets[-1]
            progress(reported, path.stat().st_size)
    if len(offsets) == 1:
        raise CorpusError(f"the corpus {path} is empty")
    starts = np.frombuffer(offsets, dtype=np.int64)
    with out.open("wb") as file:
        np.save(file, starts)
    _refuse_equal_ids(path, starts, np.frombuffer(id_hashes, dtype=np.uint64))
    if progress:
        progress(offsets[-1], offsets[-1])
    return CorpusFacts(offsets[-1], digest.hexdigest(), len(offsets) - 1)


def count_lines(path: Path) -> int:
    """Count the passages, assuming that every line is one. Raises CorpusError."""
    return sum(1 for _ in _lines(path))


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            if file.read(2) == b"\x1f\x8b":
                raise CorpusError(
                    f"the corpus {path} is compressed, but passages are read from the middle of it; "
                    "unpack it with gunzip first"
                )
            file.seek(0)
            yield from file
    except OSError as error:
        raise CorpusError(f"the corpus {path} cannot be read: {error.strerror}") from None


def _checked(line: bytes, path: Path, number: int) -> Passage:
    try:
        return _parsed(line)
    except (ValueError, RecursionError) as error:
        raise CorpusError(
            f"{path}, line {number} {_problem(error, line)}; "
            'every line must be {"id": "...", "contents": "..."}'
        ) from None


def _problem(error: Exception, line: bytes) -> str:
    if isinstance(error, CorpusError):
        return str(error)
    if isinstance(error, UnicodeError):
        return "is not UTF-8 text, or has half of a surrogate pair"
    if not line.strip():
        return "is empty"
    if isinstance(error, json.JSONDecodeError):
        return f"is not JSON ({error.msg} at column {error.colno})"
    return f"cannot be read ({error})"


def _parsed(line: bytes) -> Passage:
    found = json.loads(line.decode("utf-8-sig"))
    if not isinstance(found, dict):
        raise CorpusError(f"holds {_named(found)} instead of an object")
    for field in ("id", "contents"):
        if field not in found:
            raise CorpusError(f"has no {field!r}")
    own_id, contents = found["id"], found["contents"]
    if isinstance(own_id, bool) or not isinstance(own_id, int | str):
        raise CorpusError(f"has {_named(own_id)} as 'id' instead of a text")
    if not isinstance(contents, str):
        raise CorpusError(f"has {_named(contents)} as 'contents' instead of a text")
    for text in (str(own_id), contents):
        text.encode()
    return Passage(str(own_id), contents)


def _named(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")


def _short_hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _refuse_equal_ids(
    path: Path, offsets: npt.NDArray[np.int64], hashes: npt.NDArray[np.uint64]
) -> None:
    """Raise CorpusError for a duplicate id. Compares hashes first: all ids would not fit into memory."""
    order = np.argsort(hashes, kind="stable")
    suspects = np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]])
    if not suspects.size:
        return
    corpus = Corpus(path, offsets)
    seen: dict[str, int] = {}
    for row in np.unique(np.concatenate([order[suspects], order[suspects + 1]])).tolist():
        own_id = corpus.passage(row).id
        if own_id in seen:
            raise CorpusError(
                f"{path}, line {row + 1} has the id {own_id!r}, which line {seen[own_id] + 1} has "
                "already; give every passage an id of its own"
            )
        seen[own_id] = row
