"""An index's contents and corpus: `manifest.json` in its folder.

It is written last, so a folder without one holds no index, or an unfinished one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from prompt_coevo.files import replace as replace_file
from prompt_coevo.retrieval.corpus import CorpusFacts, Progress, Steps
from prompt_coevo.retrieval.errors import IndexFileError
from prompt_coevo.retrieval.index.kinds import VECTORS, WORDS, parts_of
from prompt_coevo.retrieval.retriever import shown

FORMAT = 1
NAME = "manifest.json"

_NO_PARTS: Mapping[str, Any] = {WORDS: None, VECTORS: []}  # both are always in the file
_HALF_PAIR = re.compile(r"[\ud800-\udfff]")
_SAMPLES = 16
_SAMPLE_BYTES = 4096
_BLOCK = 1 << 22


@dataclass(frozen=True)
class FileFacts:
    """A file of the index. `sample` is a hash of a few of its blocks, fast to check at any size."""

    name: str
    bytes: int
    sample: str
    sha256: str

    @classmethod
    def of(cls, folder: Path, name: str, steps: Steps | None = None) -> FileFacts:
        """Read the whole file and return its facts."""
        path = folder / name
        return cls(name, path.stat().st_size, sample_hash(path), full_hash(path, steps))


@dataclass(frozen=True)
class CorpusReference:
    """The corpus at the time of the build: its absolute path, its path relative to the index, and its
    content."""

    path: str
    relative: str
    bytes: int
    sample: str
    sha256: str
    passages: int

    @classmethod
    def to(cls, path: Path, folder: Path, facts: CorpusFacts) -> CorpusReference:
        """Make a reference for the index in `folder`."""
        path, folder = path.resolve(), folder.resolve()
        relative = Path(os.path.relpath(path, folder)).as_posix()
        return cls(
            str(path), relative, facts.bytes, sample_hash(path), facts.sha256, facts.passages
        )

    def find(self, folder: Path) -> Path:
        """Find the corpus of the index in `folder`. Both may have moved together, or the index alone.

        Raises IndexFileError if it is missing or has changed.
        """
        places = list(dict.fromkeys([(folder / self.relative).resolve(), Path(self.path)]))
        try:
            there = [place for place in places if place.is_file()]
            found = next((place for place in there if self.is_at(place)), None)
        except OSError as error:
            raise IndexFileError(
                f"the corpus of the index {folder} cannot be read: {error}; fix that, or name the file "
                "when opening the index"
            ) from None
        if found is not None:
            return found
        if there:
            raise IndexFileError(
                f"the index {folder} belongs to another corpus than {there[0]}, or that file has "
                "changed since; bring the old file back or build the index again"
            )
        looked = " and ".join(map(str, places))
        raise IndexFileError(
            f"the corpus of the index {folder} is missing: looked for {looked}; "
            "bring the file back or name it when opening the index"
        )

    def is_at(self, path: Path) -> bool:
        """Return True if this file is the corpus, judging by size and a sample of its blocks."""
        return path.stat().st_size == self.bytes and sample_hash(path) == self.sample


@dataclass(frozen=True)
class Manifest:
    """An index's description. `shards` are ranges of rows (first, one past the last) that cover the corpus.

    `details` describe each part (`index.kinds`): a mapping for the words, and for the vectors a list with
    one entry per shard. In the file they stand beside the other fields.
    """

    kind: str
    corpus: CorpusReference
    files: tuple[FileFacts, ...]
    shards: tuple[tuple[int, int], ...]
    details: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    @property
    def fingerprint(self) -> str:
        """Hash everything that may change search results, but not the files' location."""
        placeless = replace(self, corpus=replace(self.corpus, path="", relative=""))
        content = json.dumps(placeless._content(), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:32]

    def save(self, folder: Path) -> None:
        """Write it completely or not at all."""
        replace_file(folder / NAME, json.dumps(self._content(), indent=1).encode())

    def _content(self) -> dict[str, Any]:
        own = asdict(self)
        return {**_NO_PARTS, **own.pop("details"), **own}


F = TypeVar("F", FileFacts, CorpusReference)


def load(folder: Path) -> Manifest:
    """Read the manifest of a complete index and check its files by size and a sample of their blocks.

    Raises IndexFileError.
    """
    manifest = read(folder)
    for facts in manifest.files:
        path = folder / facts.name
        try:
            _check_size(path, facts)
            same = sample_hash(path) == facts.sample
        except OSError as error:
            raise IndexFileError(
                f"the index file {path} cannot be read: {error.strerror}; fix that, or build the index "
                "again"
            ) from None
        if not same:
            raise _damaged(path)
    return manifest


def verify(folder: Path, corpus: Path | None = None, progress: Progress | None = None) -> Manifest:
    """Read every byte of the index and its corpus. Raises IndexFileError for the first difference."""
    manifest = load(folder)
    reference = manifest.corpus
    source = reference.find(folder) if corpus is None else corpus
    total = sum(facts.bytes for facts in manifest.files) + reference.bytes
    steps = Steps(total, progress)
    try:
        for facts in manifest.files:
            if full_hash(folder / facts.name, steps) != facts.sha256:
                raise _damaged(folder / facts.name)
        same = full_hash(source, steps) == reference.sha256
    except OSError as error:
        raise IndexFileError(
            f"{error.filename or folder} cannot be read: {error.strerror}; fix that, or name another file"
        ) from None
    if not same:
        raise IndexFileError(
            f"the corpus {source} has changed since the index {folder} was built; "
            "bring the old file back or build the index again"
        )
    return manifest


def read(folder: Path) -> Manifest:
    """Read the manifest alone, without checking other files. Raises IndexFileError."""
    path = folder / NAME
    try:
        content = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise IndexFileError(_why_missing(folder)) from None
    except (OSError, ValueError, RecursionError) as error:
        raise IndexFileError(f"{path} cannot be read: {error}; build the index again") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else None
        raise IndexFileError(
            f"{path} has the format {shown(found)}, but this version reads {FORMAT}; build the index again"
        )
    try:
        return _manifest(content)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise IndexFileError(
            f"{path} is not what was written ({error}); build the index again"
        ) from None


def full_hash(path: Path, steps: Steps | None = None) -> str:
    """Return a file's SHA-256."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            if steps:
                steps.advance(len(block))
    return digest.hexdigest()


def sample_hash(path: Path) -> str:
    """Hash a file's size and some blocks spread over it, including its first and last."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    last = max(size - _SAMPLE_BYTES, 0)
    with path.open("rb") as file:
        for number in range(_SAMPLES):
            file.seek(last * number // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()[:32]


def _manifest(content: Mapping[str, Any]) -> Manifest:
    if not isinstance(content["kind"], str):
        raise ValueError(f"the kind is {shown(content['kind'])}")
    corpus = _checked(CorpusReference(**content["corpus"]))
    return Manifest(
        kind=content["kind"],
        corpus=corpus,
        files=tuple(_inside(_checked(FileFacts(**facts))) for facts in content["files"]),
        shards=_whole([(int(first), int(end)) for first, end in content["shards"]], corpus),
        details=_details(content),
    )


def _details(content: Mapping[str, Any]) -> dict[str, Any]:
    details = {part: content[part] for part in parts_of(content["kind"])}
    words, vectors = details.get(WORDS, {}), details.get(VECTORS, [{}] * len(content["shards"]))
    if not isinstance(words, dict) or [type(one) for one in vectors] != [dict] * len(
        content["shards"]
    ):
        raise ValueError(f"it does not say what an index of kind {content['kind']!r} says")
    return details


def _checked(facts: F) -> F:
    """Check that numbers and texts are where they should be. Raises ValueError."""
    for one in fields(facts):
        value = getattr(facts, one.name)
        if type(value).__name__ != one.type:
            raise ValueError(f"{one.name} is {shown(value)}")
        if isinstance(value, str) and ("\0" in value or _HALF_PAIR.search(value)):
            raise ValueError(f"{one.name} is {shown(value)}, which is no name of a file")
    return facts


def _inside(facts: FileFacts) -> FileFacts:
    path = PurePosixPath(facts.name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{facts.name} is no file of the index")
    return facts


def _whole(shards: list[tuple[int, int]], corpus: CorpusReference) -> tuple[tuple[int, int], ...]:
    """Check that the shards follow each other from the first row to the last."""
    ends = [0, *(end for _, end in shards)]
    if [first for first, _ in shards] != ends[:-1] or sorted(ends) != ends:
        raise ValueError("its shards do not follow each other")
    if ends[-1] != corpus.passages:
        raise ValueError(f"its shards have {ends[-1]} of {corpus.passages} passages")
    return tuple(shards)


def _why_missing(folder: Path) -> str:
    if not folder.is_dir():
        return f"there is no index {folder}; build one with: prompt-coevo retrieval build"
    return (
        f"{folder} holds no complete index: it has no {NAME}, which is written last; "
        "build it, or resume a stopped build, with: prompt-coevo retrieval build"
    )


def _check_size(path: Path, facts: FileFacts) -> None:
    if not path.is_file():
        raise IndexFileError(
            f"the index file {path} is missing; bring it back or build the index again"
        )
    size = path.stat().st_size
    if size != facts.bytes:
        how = "truncated" if size < facts.bytes else "changed"
        raise IndexFileError(
            f"the index file {path} is {how}: it has {size} of {facts.bytes} bytes; "
            "copy it again or build the index again"
        )


def _damaged(path: Path) -> IndexFileError:
    return IndexFileError(
        f"the index file {path} is damaged: its content is not what was written; "
        "copy it again or build the index again"
    )
