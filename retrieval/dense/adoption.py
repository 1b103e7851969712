"""Taking over an index file that was made elsewhere, such as Search-R1's `e5_Flat.index`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from prompt_coevo.retrieval.corpus import Corpus
from prompt_coevo.retrieval.dense.encoders import Encoder, Vectors
from prompt_coevo.retrieval.dense.search import read_faiss_index
from prompt_coevo.retrieval.errors import IndexFileError

# Other lengths or number formats change vectors a little; quantisation, too.
_SAMPLED_ROWS, _SLACK, _LEAST_SIMILARITY = 8, 0.02, 0.8


def adopt(
    faiss: Any, source: Path, target: Path, corpus: Corpus, rows: range, encoder: Encoder
) -> None:
    """Link an index file to `target`, where it takes no room, once it fits corpus and encoder.

    Raises IndexFileError if it does not.
    """
    if not source.is_file():
        raise IndexFileError(f"there is no index file {source}")
    index = read_faiss_index(faiss, source)
    if isinstance(index, faiss.IndexIDMap):
        raise IndexFileError(
            f"the index {source} has ids of its own, but its numbers must be the rows of the corpus"
        )
    if index.d != encoder.dimension:
        raise IndexFileError(
            f"the index {source} has vectors of {index.d} numbers, but the encoder "
            f"{encoder.source.name} makes {encoder.dimension}; name the encoder it was built with"
        )
    if index.ntotal != len(rows):
        raise IndexFileError(
            f"the index {source} has {index.ntotal} vectors, but there are {len(rows)} passages; "
            "name the corpus it was built from"
        )
    _compare_some(faiss, index, source, corpus, rows, encoder)
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(source.resolve())
    except OSError:  # on another disk
        target.symlink_to(source.resolve())


def _compare_some(
    faiss: Any, index: Any, source: Path, corpus: Corpus, rows: range, encoder: Encoder
) -> None:
    """Every passage must be nearest to its own vector. Any two passages may be rather similar."""
    numbers = sorted({int(part) for part in np.linspace(0, len(rows) - 1, _SAMPLED_ROWS)})
    if isinstance(index, faiss.IndexIVF):
        index.make_direct_map()
    try:
        stored = np.stack([index.reconstruct(number) for number in numbers])
    except RuntimeError:  # nothing to compare with: the type forgets its vectors
        return
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
