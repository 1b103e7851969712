"""A ready index file, such as Search-R1's `e5_Flat.index`: adopt it, or read its vectors.

An exact index ends with its vectors, four bytes per number. They are read from the file, not through its
mapping, so that they take no memory afterwards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from types import ModuleType
from typing import Final

import numpy as np

from prompt_coevo.retrieval.corpus import Corpus, Progress
from prompt_coevo.retrieval.dense.encoders import Encoder, Vectors
from prompt_coevo.retrieval.dense.search import read_faiss_index
from prompt_coevo.retrieval.dense.sources import BLOCK_BYTES, finite_blocks, refuse_unfinite
from prompt_coevo.retrieval.errors import IndexFileError

_WHOLE_NUMBERS: Final = frozenset({"IndexHNSWFlat", "IndexIVFFlat"})
_COMPARED: Final = 3
_FINGERPRINTED: Final = 64
# Other text lengths or number formats change vectors a little; so does quantization.
_SAMPLED_ROWS, _SLACK, _LEAST_SIMILARITY = 8, 0.02, 0.8


class StoredVectors:
    """A VectorSource: the vectors of an index file, in corpus order.

    `bytes_read` counts the bytes read of them. Raises IndexFileError for a file that faiss cannot read, or
    whose numbers are not the rows of the corpus.
    """

    def __init__(self, faiss: ModuleType, path: Path) -> None:
        self._path = path
        self._faiss = faiss
        self.index = read_faiss_index(faiss, path)
        if isinstance(self.index, faiss.IndexIDMap):
            raise self._own_ids()
        self.type = type(self.index).__name__
        self.is_flat = isinstance(self.index, faiss.IndexFlat)
        if isinstance(self.index, faiss.IndexIVF):
            try:
                self.index.make_direct_map()
            except RuntimeError:  # its numbers do not go from 0 to the last
                raise self._own_ids() from None
        self.dimension = int(self.index.d)
        self._row_bytes = 4 * self.dimension
        self._begin = path.stat().st_size - len(self) * self._row_bytes
        self.bytes_read = 0
        if self.is_flat:
            self._compare_with_faiss()

    def __len__(self) -> int:
        return int(self.index.ntotal)

    @property
    def fingerprint(self) -> str:
        """Hash the type, the shape and some vectors. Needs a type that stores vectors."""
        numbers = np.linspace(0, len(self) - 1, _FINGERPRINTED).astype(int)
        digest = hashlib.sha256(f"{self.type} {len(self)} {self.dimension}".encode())
        for number in numbers.tolist():
            digest.update(self.at(number).tobytes())
        return digest.hexdigest()

    @property
    def are_exact(self) -> bool:
        """Return True if it stores vectors as they were added, in four or two bytes per number."""
        sq = getattr(self.index, "sq", None)
        halves = sq is not None and sq.qtype == self._faiss.ScalarQuantizer.QT_fp16
        return self.is_flat or self.type in _WHOLE_NUMBERS or halves

    def stays(self, index: str) -> bool:
        """Return True if the file itself is what `index` asks for."""
        return index == "auto" or (index == "Flat" and self.is_flat)

    def refuse_inexact(self, wanted: str) -> None:
        """Raise IndexFileError if no index of the type `wanted` can be made from it."""
        if not self.are_exact:
            raise IndexFileError(
                f"the index {self._path} cannot become {wanted}: its type, {self.type}, keeps vectors only "
                "roughly; leave out --index to use it as it is, or --faiss to embed the corpus"
            )

    def refuse_others(self, passages: int, dimension: int, encoder: str) -> None:
        """Raise IndexFileError unless it has this many vectors with this encoder's length."""
        if (len(self), self.dimension) != (passages, dimension):
            raise IndexFileError(
                f"the index {self._path} has {len(self)} vectors of {self.dimension} numbers, but there "
                f"are {passages} passages, and the encoder {encoder} makes {dimension} numbers; name the "
                "corpus and the encoder it was built with"
            )

    def at(self, number: int) -> Vectors:
        """Return one vector as faiss reconstructs it. Raises RuntimeError if this type discards them."""
        vector: Vectors = self.index.reconstruct(number)
        return vector

    def blocks(self, first: int = 0) -> Iterator[Vectors]:
        """Yield all from the vector `first` on. Raises IndexFileError if the file is truncated."""
        rows = max(1, BLOCK_BYTES // self._row_bytes)
        with self._path.open("rb", buffering=0) as file:
            for start in range(first, len(self), rows):
                count = min(rows, len(self) - start)
                yield self._block(file, start, count)

    def sample(self, count: int) -> Vectors:
        """Return about `count` evenly spread vectors, or all of them."""
        numbers = np.arange(0, len(self), max(1, len(self) // count))
        with self._path.open("rb", buffering=0) as file:
            if not self.is_flat:
                return self._counted(self.index.reconstruct_batch(numbers))
            found = np.empty((len(numbers), self.dimension), np.float32)
            for vector, number in zip(found, numbers.tolist(), strict=True):
                self._read(file, number, vector)
            return found

    def named(self, number: int) -> str:
        """Name the vector, as `VectorSource.named`."""
        return f"vector {number} of the index {self._path} (line {number + 1} of the corpus)"

    def _block(self, file: FileIO, start: int, count: int) -> Vectors:
        if self.is_flat:
            found = np.empty((count, self.dimension), np.float32)
            self._read(file, start, found)
            return found
        # The reconstruct_n of IndexIVF looks at every list.
        if isinstance(self.index, self._faiss.IndexIVF):
            return self._counted(self.index.reconstruct_batch(np.arange(start, start + count)))
        return self._counted(self.index.reconstruct_n(start, count))

    def _counted(self, vectors: Vectors) -> Vectors:
        self.bytes_read += vectors.nbytes
        return vectors

    def _read(self, file: FileIO, row: int, into: Vectors) -> None:
        view = memoryview(into.reshape(-1).view(np.uint8).data)
        file.seek(self._begin + row * self._row_bytes)
        while view:
            done = file.readinto(view)
            if not done:
                raise IndexFileError(
                    f"the index {self._path} breaks off while it is read; copy it again"
                )
            self.bytes_read += done
            view = view[done:]

    def _own_ids(self) -> IndexFileError:
        return IndexFileError(
            f"the index {self._path} uses its own ids instead of the rows of the corpus"
        )

    def _compare_with_faiss(self) -> None:
        """Check that the vectors stand at the file's end, as in faiss' code; a newer version may differ."""
        numbers = {int(part) for part in np.linspace(0, max(len(self) - 1, 0), _COMPARED)}
        read = np.empty(self.dimension, np.float32)
        with self._path.open("rb", buffering=0) as file:
            for number in numbers if len(self) else ():
                self._read(file, number, read)
                if read.tobytes() != self.at(number).tobytes():
                    raise IndexFileError(
                        f"the index {self._path} is not written as this version expects; leave out --index "
                        "to use it as it is"
                    )
        self.bytes_read = 0


def ready_vectors(
    faiss: ModuleType, source: Path, corpus: Corpus, rows: range, encoder: Encoder
) -> StoredVectors:
    """Return the vectors of an index file that fits these rows of the corpus and the encoder.

    Raises IndexFileError if it does not fit.
    """
    if not source.is_file():
        raise IndexFileError(f"there is no index file {source}")
    ready = StoredVectors(faiss, source)
    ready.refuse_others(len(rows), encoder.dimension, encoder.source.name)
    _compare_some(ready, source, corpus, rows, encoder)
    return ready


def adopt(ready: StoredVectors, source: Path, target: Path, progress: Progress) -> None:
    """Check that the vectors are finite, then link the index file to `target`, where it takes no space.

    A type that stores vectors approximately holds only finite numbers. Raises IndexFileError.
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
    """Check that sampled passages are nearest to their own vectors. (Any two passages may be fairly
    similar.)"""
    numbers = sorted({int(part) for part in np.linspace(0, len(rows) - 1, _SAMPLED_ROWS)})
    try:
        stored = np.stack([ready.at(number) for number in numbers])
    except RuntimeError:  # this type discards its vectors, so there is nothing to compare with
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
