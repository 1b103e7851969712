"""Taking over an index file that was made elsewhere, such as Search-R1's `e5_Flat.index`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from prompt_coevo.retrieval.corpus import Corpus, Progress
from prompt_coevo.retrieval.dense.encoders import Encoder, Vectors
from prompt_coevo.retrieval.dense.sources import finite_blocks, refuse_unfinite
from prompt_coevo.retrieval.dense.stored import StoredVectors
from prompt_coevo.retrieval.errors import IndexFileError

# Other lengths or number formats change vectors a little; quantisation, too.
_SAMPLED_ROWS, _SLACK, _LEAST_SIMILARITY = 8, 0.02, 0.8


def ready_vectors(
    faiss: Any, source: Path, corpus: Corpus, rows: range, encoder: Encoder
) -> StoredVectors:
    """The vectors of an index file that fits these rows of the corpus and the encoder.

    Raises IndexFileError if it does not.
    """
    if not source.is_file():
        raise IndexFileError(f"there is no index file {source}")
    ready = StoredVectors(faiss, source)
    if ready.dimension != encoder.dimension:
        raise IndexFileError(
            f"the index {source} has vectors of {ready.dimension} numbers, but the encoder "
            f"{encoder.source.name} makes {encoder.dimension}; name the encoder it was built with"
        )
    if len(ready) != len(rows):
        raise IndexFileError(
            f"the index {source} has {len(ready)} vectors, but there are {len(rows)} passages; "
            "name the corpus it was built from"
        )
    _compare_some(ready, source, corpus, rows, encoder)
    return ready


def adopt(ready: StoredVectors, source: Path, target: Path, progress: Progress) -> None:
    """Link an index file to `target`, where it takes no room, once its vectors are found to be numbers.

    A type that keeps vectors only roughly holds nothing but numbers. Raises IndexFileError.
    """
    if ready.are_exact:
        for _ in finite_blocks(ready, progress):
            pass
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(source.resolve())
    except OSError:  # on another disk
        target.symlink_to(source.resolve())


def _compare_some(
    ready: StoredVectors, source: Path, corpus: Corpus, rows: range, encoder: Encoder
) -> None:
    """Every passage must be nearest to its own vector. Any two passages may be rather similar."""
    numbers = sorted({int(part) for part in np.linspace(0, len(rows) - 1, _SAMPLED_ROWS)})
    try:
        stored = np.stack([ready.at(number) for number in numbers])
    except RuntimeError:  # nothing to compare with: the type forgets its vectors
        return
    for number, vector in zip(numbers, stored, strict=True):
        refuse_unfinite(vector[None], number, ready)
    texts = [corpus.passage(rows[number]).contents for number in numbers]
    similar = _unit(encoder.encode_passages(texts)) @ _unit(stored).T
    own = np.diag(similar)
    if own.mean() < _LEAST_SIMILARITY or (own < similar.max(1) - _SLACK).any():
        raise IndexFileError(
            f"the index {source} was not made from this corpus with the encoder "
            f"{encoder.source.name}: the vectors of some passages that were compared differ "
            f"(similarity {own.mean():.2f}); name the corpus and the encoder it was built with"
        )


def _unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = vectors / np.maximum(lengths, 1e-12)
    return unit
