"""Dense retrieval: passages and queries as vectors, compared by inner product.

`index` is "Flat" (exact), "SQfp16" (half the memory), "HNSW32,SQ8" (a graph: a query costs little at any
size), "IVF,SQ8" (inverted lists), whatever else faiss can make by name, or "auto": Flat up to a million
passages, HNSW32,SQ8 beyond; where faiss sees a GPU, SQfp16 if it fits and IVF,SQ8 if not.

The same build twice gives the same vectors; a graph that several cores build together differs a little
from time to time.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any, TypedDict

from prompt_coevo.files import replace as replace_file
from prompt_coevo.retrieval.corpus import Corpus, Progress
from prompt_coevo.retrieval.dense.build import (
    FAISS_FILE,
    FLAT_FILE,
    choose_type,
    new_index,
    refuse_too_few,
    write_index,
)
from prompt_coevo.retrieval.dense.embeddings import Embeddings
from prompt_coevo.retrieval.dense.encoder_recipes import EncoderSource, Recipe, resolve
from prompt_coevo.retrieval.dense.encoders import Encoder, load, on_gpus
from prompt_coevo.retrieval.dense.faiss_package import load_faiss
from prompt_coevo.retrieval.dense.gpu import free_gpu_bytes, on_gpu
from prompt_coevo.retrieval.dense.search import (
    FaissVectors,
    FlatVectors,
    VectorIndex,
    read_faiss_index,
)
from prompt_coevo.retrieval.dense.stored import StoredVectors, adopt, ready_vectors
from prompt_coevo.retrieval.errors import IndexFileError, RetrieverError
from prompt_coevo.retrieval.shards import Ranking

_CHUNKS = "embeddings"


class EncoderDetails(TypedDict):
    """The manifest's entry about an encoder."""

    name: str
    sha256: str
    dimension: int
    numbers: str
    recipe: dict[str, Any]


class DenseDetails(TypedDict):
    """The manifest's entry about the vectors of a shard."""

    encoder: EncoderDetails
    index: str
    file: str
    vectors: int


def build_dense(
    corpus: Corpus,
    folder: Path,
    *,
    encoder: str,
    index: str = "auto",
    rows: range | None = None,
    faiss_file: Path | None = None,
    progress: Progress = lambda done, total: None,
) -> DenseDetails:
    """Build the index of some rows in `folder`; return the details for `DenseIndex.open`.

    A stopped build resumes. `faiss_file` is an existing faiss index of these rows, so that they need not be
    embedded again; only a few passages are, to check that the file belongs to them. It is used unchanged if
    `index` is "auto", or if `index` is "Flat" and so is the file; otherwise a new index is built from its
    vectors.

    `progress` counts every row twice, when it is embedded and when it is added to the index; with a
    `faiss_file` once. All GPUs embed, else the CPU. Raises IndexFileError for an unknown type, a file that
    does not fit, a file without exact vectors where these are needed, and vectors that are not finite;
    EncoderError if the encoder cannot be loaded or returns such vectors; FaissConflictError and
    MissingExtraError for problems with the installed packages.
    """
    faiss = load_faiss()
    rows = range(len(corpus)) if rows is None else rows
    loaded = load(encoder)
    encoders = on_gpus(loaded) if faiss_file is None else [loaded]
    folder.mkdir(parents=True, exist_ok=True)
    gpus = free_gpu_bytes(faiss) if faiss_file is None else ()
    kind = choose_type(index, len(corpus), len(rows), loaded.dimension, gpus)
    if faiss_file is None or index != "auto":
        # Check first: an unavailable type must not cost hours of embedding.
        refuse_too_few(faiss, new_index(faiss, loaded.dimension, kind), kind, len(rows))
    source: Embeddings | StoredVectors
    if faiss_file is not None:
        source = ready_vectors(faiss, faiss_file, corpus, rows, loaded)
        if source.stays(index):
            adopt(source, faiss_file, folder / FAISS_FILE, progress)
            return _details(loaded, "adopted", FAISS_FILE, len(rows))
        source.refuse_inexact(kind)
        made_of = {"encoder": [loaded.sha256, asdict(loaded.source.recipe)]}
    else:
        source, made_of = Embeddings(corpus, rows, encoders[0], folder / _CHUNKS), {}

    def writing(done: int, total: int) -> None:
        if faiss_file is None:  # otherwise every row was counted once when embedded
            done, total = total + done, 2 * total
        progress(done, total)

    def made() -> DenseDetails:
        if isinstance(source, Embeddings):
            source.compute(lambda done, total: progress(done, 2 * total), encoders)
        file = write_index(faiss, source, kind, folder, writing, source.fingerprint)
        return _details(encoders[0], kind, file, len(rows))

    asked = {"index": index, "vectors": source.fingerprint, **made_of}
    details = _made_once(folder, asked, made)
    shutil.rmtree(folder / _CHUNKS, ignore_errors=True)
    return details


def _details(encoder: Encoder, index: str, file: str, vectors: int) -> DenseDetails:
    return {
        "encoder": {
            "name": encoder.source.name,
            "sha256": encoder.sha256,
            "dimension": encoder.dimension,
            "numbers": encoder.numbers,
            "recipe": asdict(encoder.source.recipe),
        },
        "index": index,
        "file": file,
        "vectors": vectors,
    }


def _made_once(
    folder: Path, asked: dict[str, Any], make: Callable[[], DenseDetails]
) -> DenseDetails:
    """Make an index, unless an earlier build for the same request did; return its details.

    The vectors are not kept; without this note they would be computed again after a kill.
    """
    path = folder / "finished.json"
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        finished = json.loads(path.read_text("utf-8"))
        details: DenseDetails = finished["details"]
        if finished["asked"] == asked and (folder / details["file"]).is_file():
            return details
    details = make()
    replace_file(path, json.dumps({"asked": asked, "details": details}, indent=1).encode())
    return details


class DenseIndex:
    """Searches an index made by `build_dense`. On a GPU, not safe to use from several threads at once."""

    def __init__(self, encoder: Encoder, vectors: VectorIndex, rows: range) -> None:
        self._encoder = encoder
        self._vectors = vectors
        self._rows = rows

    @classmethod
    def open(
        cls,
        folder: Path,
        corpus: Corpus,
        details: DenseDetails,
        rows: range,
        gpus: str = "auto",
    ) -> DenseIndex:
        """Open an index and load its encoder; `gpus` is as in `on_gpu`.

        Raises IndexFileError if index, encoder and rows do not fit together, or if the vectors do not fit
        where they should be searched.
        """
        faiss = load_faiss()
        loaded = _encoder_of(folder, details["encoder"])
        vectors = open_vectors(faiss, folder / details["file"], gpus)
        if (vectors.count, vectors.dimension) != (len(rows), loaded.dimension):
            raise IndexFileError(
                f"the index {folder} has {vectors.count} vectors of {vectors.dimension} numbers, but "
                f"{len(rows)} of {loaded.dimension} belong there; build the index again"
            )
        if rows.stop > len(corpus):
            raise IndexFileError(
                f"the index {folder} ends at row {rows.stop} of a corpus that has {len(corpus)}; "
                "build the index again"
            )
        return cls(loaded, vectors, rows)

    def search_rows(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Return for each query at most `k` rows of the corpus and their scores, best first."""
        if not queries:
            return []
        found = self._vectors.search(
            self._encoder.encode_queries(queries), min(k, self._vectors.count)
        )
        scores, numbers = (part.tolist() for part in found)
        return [self._ranking(*pair) for pair in zip(scores, numbers, strict=True)]

    def close(self) -> None:
        """Release the vectors; the index must not be used any more."""
        self._vectors.close()

    def _ranking(self, scores: list[float], numbers: list[int]) -> Ranking:
        if max(numbers) >= len(self._rows):
            raise RetrieverError(
                f"the index found the vector {max(numbers)} among {len(self._rows)}; build the index again"
            )
        pairs = zip(numbers, scores, strict=True)
        hits = [(self._rows[number], score) for number, score in pairs if number >= 0]
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))


def _encoder_of(folder: Path, wanted: EncoderDetails) -> Encoder:
    source = resolve(wanted["name"])
    encoder = load(EncoderSource(source.name, source.location, Recipe(**wanted["recipe"])))
    if encoder.sha256 != wanted["sha256"]:
        raise IndexFileError(
            f"the index {folder} was built with another encoder than {source.name} is now; "
            "bring the old checkpoint back or build the index again"
        )
    return encoder


def open_vectors(faiss: ModuleType, path: Path, gpus: str = "auto") -> VectorIndex:
    """Open an index file of this package or of faiss, without its encoder. Raises IndexFileError."""
    if path.name == FLAT_FILE:
        return on_gpu(faiss, FlatVectors(faiss, path), gpus)
    return on_gpu(faiss, FaissVectors(faiss, read_faiss_index(faiss, path)), gpus)
