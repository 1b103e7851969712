"""Fuzz corpora and indexes on disk: files of any bytes, and forged manifests."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any, Final

from fuzz.source import Source, as_json
from fuzz.target import Target, scratch
from prompt_coevo.errors import CoevoError
from prompt_coevo.retrieval.corpus import Corpus, write_offsets
from prompt_coevo.retrieval.errors import CorpusError, IndexFileError
from prompt_coevo.retrieval.index import manifest
from prompt_coevo.retrieval.index.build import build
from prompt_coevo.retrieval.index.manifest import FileFacts
from prompt_coevo.retrieval.index.open import describe, open_index

_PASSAGES: Final = b"".join(
    as_json({"id": str(row), "contents": f'"Title {row}"\nabout word{row}'}) + b"\n"
    for row in range(4)
)


def corpus(data: bytes) -> None:
    """Refuse a corpus with a line number, or read every passage."""
    path, offsets = scratch() / "corpus.jsonl", scratch() / "offsets.npy"
    path.write_bytes(data)
    try:
        facts = write_offsets(path, offsets)
    except CorpusError:
        return
    opened = Corpus.open(path, offsets)
    assert len(list(opened.passages())) == facts.passages
    opened.close()


def offsets(data: bytes) -> None:
    """Read the file of line offsets."""
    path, made = scratch() / "whole.jsonl", scratch() / "broken.npy"
    path.write_bytes(_PASSAGES)
    made.write_bytes(data)
    try:
        opened = Corpus.open(path, made)
    except (CorpusError, IndexFileError):
        return
    opened.close()


def manifest_bytes(data: bytes) -> None:
    """Read a manifest of any bytes."""
    (_broken() / manifest.NAME).write_bytes(data)
    _use(_broken())


def manifest_tree(data: bytes) -> None:
    """Read a JSON manifest with one wrong field."""
    source = Source(data)
    tree = source.wrong(json.loads((_index() / manifest.NAME).read_text()))
    (_broken() / manifest.NAME).write_bytes(as_json(tree))
    _use(_broken())


def index_file(data: bytes) -> None:
    """Open an index file that was changed, with a manifest that matches it."""
    source = Source(data)
    folder = _broken()
    content = json.loads((_index() / manifest.NAME).read_text())
    facts = source.pick(content["files"])
    path = folder / facts["name"]
    whole = path.read_bytes()
    place = source.below(len(whole))
    path.write_bytes(whole[:place] + source.rest() + whole[place + source.below(9) :])
    try:
        facts |= vars(FileFacts.of(folder, facts["name"]))
        (folder / manifest.NAME).write_text(json.dumps(content))
        try:
            opened = open_index(folder)
        except CoevoError:
            return
        opened.close()
    finally:
        path.write_bytes(whole)


def _use(folder: Path) -> None:
    for use in (manifest.load, manifest.verify, describe):
        try:
            use(folder)
        except IndexFileError:
            continue
    try:
        opened: Any = open_index(folder)
    except (IndexFileError, CorpusError):
        return
    opened.search(["word1"], 2)
    opened.close()


@cache
def _index() -> Path:
    source, folder = scratch() / "home.jsonl", scratch() / "index"
    source.write_bytes(_PASSAGES)
    build(source, folder)
    return folder


@cache
def _broken() -> Path:
    folder = scratch() / "broken"
    shutil.copytree(_index(), folder)
    return folder


def _seeds() -> tuple[bytes, ...]:
    return (
        as_json({"format": 1, "kind": "bm25", "corpus": {}, "files": [], "shards": []}),
        b'{"format": 1}',
        b"[" * 2000,
    )


_NPY: Final = (
    b"\x93NUMPY\x01\x00v\x00{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }"
    + b" " * 60
    + b"\n"
    + bytes(8)
)

TARGETS = {
    "indexes.corpora": Target(corpus, (_PASSAGES, b"\xef\xbb\xbf" + _PASSAGES, b'{"id": 1}'), 0.3),
    "indexes.offsets": Target(offsets, (_NPY, b"", b"PK\x03\x04", b"\x93NUMPY"), 0.3),
    "indexes.manifests": Target(manifest_bytes, _seeds(), 0.2),
    "indexes.manifest_trees": Target(
        manifest_tree, (bytes(range(40)), b"\0\1", b"\1\2\2" * 9, bytes(range(200, 256))), 0.15
    ),
    "indexes.files": Target(index_file, (bytes(range(40)), b"\0\1", b"\1\0\x40\0\xff"), 0.15),
}
