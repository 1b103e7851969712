"""Load the rows and the stored vectors of an index into a Chroma collection, without embedding."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from prompt_coevo.retrieval.arrays import open_array
from prompt_coevo.retrieval.chroma.server import (
    DEFAULT_DATABASE,
    DEFAULT_TENANT,
    ChromaServer,
    Collection,
    Marks,
    NoCollection,
)
from prompt_coevo.retrieval.corpus import Corpus, Progress
from prompt_coevo.retrieval.dense.build import CANDIDATES_OF_A_BUILD, FLAT_FILE
from prompt_coevo.retrieval.dense.encoders import Vectors
from prompt_coevo.retrieval.dense.faiss_package import load_faiss
from prompt_coevo.retrieval.dense.search import candidates
from prompt_coevo.retrieval.dense.sources import BLOCK_BYTES
from prompt_coevo.retrieval.dense.stored import StoredVectors
from prompt_coevo.retrieval.errors import CorpusError, IndexFileError, RetrieverError
from prompt_coevo.retrieval.index import layout
from prompt_coevo.retrieval.index.kinds import VECTORS, Stages
from prompt_coevo.retrieval.index.manifest import Manifest
from prompt_coevo.retrieval.index.open import open_corpus

_ROWS_AT_ONCE: Final = 250
_TIMEOUT_S: Final = 600.0

_Blocks: TypeAlias = Callable[[int], Iterator[Vectors]]
"""Called with a row; returns the vectors from there on."""


class Pushed(NamedTuple):
    """The collection, the number of its rows, and how many of them were there before."""

    collection: str
    rows: int
    before: int


def push(
    folder: Path,
    url: str,
    name: str | None = None,
    *,
    corpus: Path | None = None,
    tenant: str = DEFAULT_TENANT,
    database: str = DEFAULT_DATABASE,
    force: bool = False,
    stages: Stages = lambda name: lambda done, total: None,
) -> Pushed:
    """Store an index with vectors as a collection, by default of the folder's name.

    A stopped push resumes. A collection that holds anything else is replaced only with `force`. `corpus` is
    as in `open_index`. Raises IndexFileError for an index without its exact vectors, CorpusError for a
    passage that Chroma cannot store, and the errors of ChromaServer.
    """
    made, passages = open_corpus(folder, corpus)
    blocks, dimension = _vectors(folder, made)
    name = name or folder.resolve().name
    encoder = made.details[VECTORS][0]["encoder"]
    told = (encoder["name"], encoder["sha256"], encoder["recipe"])
    marks = Marks(made.fingerprint, len(passages), *told, complete=False)
    server = ChromaServer(url, tenant, database, _TIMEOUT_S)
    try:
        found = _existing(server, name, marks, dimension, force)
        before = server.count(found) if found and not force else 0
        complete = found is not None and found.marks is not None and found.marks.complete
        if complete and before == marks.rows:
            return Pushed(name, marks.rows, before)
        _refuse_unfit(passages, stages("checking"))
        if found is not None and force:
            server.delete(name)
        if found is None or force:
            found = server.create(name, _graph(marks.rows), marks)
        elif complete:  # some rows were deleted or added since
            server.mark(found, marks)
            before = 0
        before = max(0, min(before, marks.rows) - _ROWS_AT_ONCE)  # of the last batch maybe a part
        _store(server, found, passages, before, blocks(before), stages("pushing"))
        if before and server.count(found) < marks.rows:  # some of those before were deleted
            before = 0
            _store(server, found, passages, before, blocks(before), stages("pushing"))
        _finish(server, found, marks)
        return Pushed(name, marks.rows, before)
    finally:
        server.close()
        passages.close()


def _graph(rows: int) -> dict[str, str | int]:
    """Return a graph like HNSW32 of this package; Chroma's own keeps 16 neighbours and 100 candidates."""
    ef = max(100, candidates(rows))
    built = {"max_neighbors": 32, "ef_construction": CANDIDATES_OF_A_BUILD}
    return {"space": "ip", "ef_search": ef, **built}


def _existing(
    server: ChromaServer, name: str, marks: Marks, dimension: int, force: bool
) -> Collection | None:
    """Find the collection. Raises RetrieverError if it holds anything else, unless with `force`."""
    try:
        found = server.collection(name)
    except NoCollection:
        return None
    if force:
        return found
    if found.space != "ip":
        problem = f"compares by {found.space!r}, not by the inner product, 'ip'"
    elif found.dimension not in (None, dimension):
        problem = f"has vectors of {found.dimension} numbers, but the index of {dimension}"
    elif found.marks is None or found.marks.index != marks.index:
        problem = "holds another index" if found.marks else "was not made by a push"
    else:
        return found
    raise RetrieverError(
        f"the collection {name!r} on {server.url} {problem}; name another with --collection, or replace it "
        "with --force"
    )


def _finish(server: ChromaServer, collection: Collection, marks: Marks) -> None:
    if (count := server.count(collection)) != marks.rows:
        raise RetrieverError(
            f"the collection {collection.name!r} on {server.url} has {count} rows after all {marks.rows} "
            "were stored, because something else writes to it; name another with --collection, or replace "
            "it with --force"
        )
    server.mark(collection, replace(marks, complete=True))


def _vectors(folder: Path, made: Manifest) -> tuple[_Blocks, int]:
    """Open the vectors of all shards; return them and their length. Raises IndexFileError."""
    if VECTORS not in made.details:
        raise IndexFileError(
            f"the index {folder} is one of words, without vectors; push one of --kind dense or hybrid"
        )
    faiss, details = load_faiss(), made.details[VECTORS]
    shards = layout.shards(folder, (range(first, end) for first, end in made.shards))
    parts = [
        (shard.rows, _opened(faiss, shard.folder / VECTORS / said["file"], len(shard.rows)))
        for shard, said in zip(shards, details, strict=True)
    ]

    def blocks(first: int) -> Iterator[Vectors]:
        for rows, of_shard in parts:
            if first < rows.stop:
                yield from of_shard(max(first - rows.start, 0))

    return blocks, details[0]["encoder"]["dimension"]


def _opened(faiss: ModuleType, path: Path, count: int) -> _Blocks:
    if path.name == FLAT_FILE:
        array = open_array(path, dimensions=2)
        found = len(array)
        blocks: _Blocks = partial(_flat_blocks, path, array)
    else:
        stored = StoredVectors(faiss, path)
        if not stored.are_exact:
            raise IndexFileError(
                f"the index {path} cannot be pushed: its type, {stored.type}, keeps vectors only roughly; "
                "build one of the type Flat or SQfp16"
            )
        found, blocks = len(stored), stored.blocks
    if found != count:
        raise IndexFileError(
            f"the index {path} has {found} vectors for {count} passages; build it again"
        )
    return blocks


def _flat_blocks(path: Path, array: Vectors, first: int) -> Iterator[Vectors]:
    """Read vectors from the end of their file: mapped pages would count as this process' memory."""
    row_bytes = array.nbytes // len(array)
    begin, at_once = path.stat().st_size - array.nbytes, max(1, BLOCK_BYTES // row_bytes)
    for start in range(first, len(array), at_once):
        count = array[start : start + at_once].size
        block = np.fromfile(path, array.dtype, count, offset=begin + start * row_bytes)
        yield block.reshape(-1, array.shape[1])


def _refuse_unfit(corpus: Corpus, progress: Progress) -> None:
    """Raise CorpusError for a passage that Chroma cannot store, or that has nothing to read."""
    for number, passage in enumerate(corpus.passages(), 1):
        if not passage.id or not passage.contents.strip():
            raise CorpusError(
                f"{corpus.path}, line {number} has {'no text' if passage.id else 'an empty id'}; mend it "
                "and build the index again to push it"
            )
        if number % _ROWS_AT_ONCE == 0 or number == len(corpus):
            progress(number, len(corpus))


def _store(
    server: ChromaServer,
    collection: Collection,
    corpus: Corpus,
    first: int,
    blocks: Iterator[Vectors],
    progress: Progress,
) -> None:
    """Store the rows from `first` on. Fields are kept as JSON, because metadata cannot be nested."""
    passages = corpus.passages(range(first, len(corpus)))
    for block in blocks:
        for start in range(0, len(block), _ROWS_AT_ONCE):
            vectors = block[start : start + _ROWS_AT_ONCE]
            batch = list(islice(passages, len(vectors)))
            metadata = [
                {"row": row, "fields": json.dumps(dict(one.fields))} if one.fields else {"row": row}
                for row, one in enumerate(batch, first)
            ]
            rows = {"ids": [one.id for one in batch], "documents": [one.contents for one in batch]}
            stored = {**rows, "metadatas": metadata, "embeddings": vectors}
            server.upsert(collection, stored)
            first += len(batch)
            progress(first, len(corpus))
