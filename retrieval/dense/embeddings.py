"""The vectors of a corpus, in chunk files, so that a stopped build resumes where it was.

Chunks begin at fixed rows of the whole corpus, whatever part of it is wanted: a shard's vectors equal those
of the whole byte for byte.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

import numpy as np

from prompt_coevo.retrieval.arrays import whole_file
from prompt_coevo.retrieval.corpus import Corpus, Progress
from prompt_coevo.retrieval.dense.encoders import Encoder, UnfiniteError, Vectors
from prompt_coevo.retrieval.dense.sources import BLOCK_BYTES

CHUNK_ROWS = 2048


@dataclass(frozen=True)
class Chunk:
    """A chunk file: the row of its first vector, and which of its vectors are wanted."""

    path: Path
    first: int
    part: slice

    def __len__(self) -> int:
        return int(self.part.stop - self.part.start)

    def read(self) -> Vectors:
        """Map the wanted vectors into memory."""
        vectors: Vectors = np.load(self.path, mmap_mode="r")[self.part]
        return vectors


class Embeddings:
    """The vectors of some rows of a corpus. `folder` may hold chunks of an earlier, stopped build.

    A chunk's name depends on encoder and corpus, so another one never reuses it.
    """

    def __init__(self, corpus: Corpus, rows: range, encoder: Encoder, folder: Path) -> None:
        self._corpus = corpus
        self._encoder = encoder
        self._rows = rows
        self._folder = folder
        self.dimension = encoder.dimension
        before = rows.start % CHUNK_ROWS
        firsts = range(rows.start - before, rows.stop, CHUNK_ROWS)
        self._chunks = [self._chunk(first) for first in firsts]

    def __len__(self) -> int:
        return len(self._rows)

    def blocks(self, first: int = 0) -> Iterator[Vectors]:
        """Yield the vectors, as `VectorSource.blocks`; all must have been computed."""
        parts: list[Vectors] = []
        done = 0
        for chunk in self._chunks:
            begin, done = max(first - done, 0), done + len(chunk)
            if begin < len(chunk):
                parts.append(chunk.read()[begin:])
            if sum(part.nbytes for part in parts) >= BLOCK_BYTES:
                yield np.concatenate(parts)
                parts = []
        if parts:
            yield np.concatenate(parts)

    @property
    def fingerprint(self) -> str:
        """Hash the texts, the encoder and the selected rows."""
        named = [[chunk.path.name, chunk.part.start, chunk.part.stop] for chunk in self._chunks]
        return hashlib.sha256(json.dumps(named).encode()).hexdigest()

    def compute(self, progress: Progress, encoders: Sequence[Encoder] = ()) -> None:
        """Compute the missing chunks; report rows done and rows in total to `progress`.

        Several encoders, each on its own device and thread, take chunks in turn. Python prepares their
        batches one at a time, so many fast devices may wait for it.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        done = 0
        for chunk in self._filled(encoders or [self._encoder]):
            done += len(chunk)
            progress(done, len(self))

    def _filled(self, encoders: Sequence[Encoder]) -> Iterator[Chunk]:
        """Yield the chunks as they are finished."""
        if len(encoders) == 1:
            yield from (self._fill(chunk, encoders[0]) for chunk in self._chunks)
            return
        idle: SimpleQueue[Encoder] = SimpleQueue()
        for encoder in encoders:
            idle.put(encoder)

        def fill(chunk: Chunk) -> Chunk:
            encoder = idle.get()
            try:
                return self._fill(chunk, encoder)
            finally:
                idle.put(encoder)

        with ThreadPoolExecutor(len(encoders), "embedding") as threads:
            try:
                for ready in as_completed([threads.submit(fill, chunk) for chunk in self._chunks]):
                    yield ready.result()
            finally:  # on error or stop, wait only for the chunks under way, and keep them
                threads.shutdown(cancel_futures=True)

    def _fill(self, chunk: Chunk, encoder: Encoder) -> Chunk:
        texts = self._texts(chunk.first)
        if not _is_whole(chunk.path, (len(texts), self.dimension)):
            vectors = self._encoded(texts, chunk.first, encoder)
            with whole_file(chunk.path) as file:
                np.save(file, vectors)
        return chunk

    def sample(self, count: int) -> Vectors:
        """Return a sample, as `VectorSource.sample`."""
        step = max(1, len(self) // count)
        return np.concatenate([np.asarray(chunk.read()[::step]) for chunk in self._chunks])

    def named(self, number: int) -> str:
        """Name the vector, as `VectorSource.named`."""
        line = self._rows[number] + 1
        return f"the vector that the encoder made of {self._corpus.path}, line {line},"

    def _encoded(self, texts: list[str], first: int, encoder: Encoder) -> Vectors:
        try:
            return encoder.encode_passages(texts)
        except UnfiniteError as error:
            line = f"{self._corpus.path}, line {first + error.text + 1}"
            raise UnfiniteError(error.encoder, error.text, line) from None

    def _chunk(self, first: int) -> Chunk:
        texts = self._texts(first)
        part = slice(max(self._rows.start - first, 0), min(self._rows.stop - first, len(texts)))
        return Chunk(self._folder / f"{first:010}-{self._key(texts)}.npy", first, part)

    def _key(self, texts: Sequence[str]) -> str:
        encoder = self._encoder
        key = [encoder.sha256, encoder.numbers, asdict(encoder.source.recipe), texts]
        return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]

    def _texts(self, first: int) -> list[str]:
        rows = range(first, min(first + CHUNK_ROWS, len(self._corpus)))
        return [self._corpus.passage(row).contents for row in rows]


def _is_whole(path: Path, shape: tuple[int, int]) -> bool:
    try:
        return bool(np.load(path, mmap_mode="r").shape == shape)
    except (OSError, ValueError):
        return False
