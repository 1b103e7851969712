"""Compare the quality and cost of dense index types, and measure how fast queries are encoded.

    python benchmarks/retrieval_dense.py [--json FILE] [--size N]

The vectors are drawn, so that the numbers are those of the index types and not of an encoder. "smooth" ones
lie near a curved space of 48 dimensions, in which close texts have close vectors, as encoders are trained
to make them. "bags" are random projections of the words of invented passages: no vector is much closer to
its neighbours than to any other, which is as bad as it gets for graphs and inverted lists. `recall_at_3`
is the share of the exact first three that is found. Costs are CPU time on one thread, the best of several
turns. The floor of a single exact query is the cost of reading all vectors once, in the same mapped file,
taking turns with the query. The encoder has the shape of MiniLM-L6 and random weights.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

import numpy as np  # noqa: E402

from helpers.passages import passages, queries  # noqa: E402
from helpers.tiny_encoder import save_tiny_encoder  # noqa: E402

SIZE, DIMENSION, QUERIES, BATCH, SINGLES, K = 100_000, 384, 1024, 256, 64, 3
TYPES = ("Flat", "SQfp16", "HNSW32,SQ8", "IVF,SQ8")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

Row: TypeAlias = dict[str, Any]


class Bags:
    """Embed texts as weighted sums of random word vectors, of length 1."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = Counter(word for text in texts for word in set(_words(text)))
        self._numbers = {word: number for number, word in enumerate(counts)}
        self._weights = np.log(len(texts) / np.array(list(counts.values()), np.float32))
        rng = np.random.default_rng(0)
        self._vectors = rng.standard_normal((len(counts), DIMENSION), dtype=np.float32)

    def __call__(self, texts: Sequence[str]) -> Any:
        import torch
        from torch.nn.functional import embedding_bag

        found = [
            [self._numbers[word] for word in _words(text) if word in self._numbers]
            for text in texts
        ]
        flat = np.concatenate([np.array(numbers, np.int64) for numbers in found])
        starts = np.cumsum([0, *map(len, found[:-1])])
        sums = embedding_bag(
            torch.from_numpy(flat),
            torch.from_numpy(self._vectors),
            torch.from_numpy(starts),
            mode="sum",
            per_sample_weights=torch.from_numpy(self._weights[flat]),
        )
        return torch.nn.functional.normalize(sums).numpy()


class Ready:
    """Hold vectors in memory, in the form that an index is built from."""

    dimension = DIMENSION

    def __init__(self, vectors: Any) -> None:
        self._vectors = vectors

    def __len__(self) -> int:
        return len(self._vectors)

    def blocks(self, first: int = 0) -> Iterator[Any]:
        return (self._vectors[n : n + 8192] for n in range(first, len(self), 8192))

    def sample(self, count: int) -> Any:
        return self._vectors[:: max(1, len(self) // count)]

    def named(self, number: int) -> str:
        return f"vector {number}"


def bags(size: int) -> tuple[Any, Any]:
    """Return vectors of passages and of questions about them."""
    texts = [passage["contents"] for passage in passages(size)]
    vectors = Bags(texts)
    return vectors(texts), vectors([query for query, _ in queries(QUERIES, size)])


def smooth(size: int) -> tuple[Any, Any]:
    """Return vectors of passages around 1000 topics, and of questions each near to a passage."""
    rng = np.random.default_rng(0)

    def drawn(count: int, dimension: int) -> Any:
        return rng.standard_normal((count, dimension), dtype=np.float32)

    space = np.linalg.qr(drawn(DIMENSION, 48))[0].T
    topics = drawn(1000, 48)[rng.integers(0, 1000, size)]
    vectors = _unit(
        _unit(topics + 0.7 * drawn(size, 48)) @ space + 0.4 * _unit(drawn(size, DIMENSION))
    )
    asked = vectors[rng.integers(0, size, QUERIES)]
    away = _unit(_unit(drawn(QUERIES, 48)) @ space + 0.4 * _unit(drawn(QUERIES, DIMENSION)))
    return vectors, _unit(asked + 0.5 * away)


def recall(found: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]) -> float:
    """Return the share of each query's `K` wanted rows that is found."""
    shared = [len(set(a) & set(b)) for a, b in zip(found, wanted, strict=True)]
    return sum(shared) / (K * len(wanted))


def _unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def cpu_ms(call: Callable[[], Any], turns: int) -> list[float]:
    times = []
    for _ in range(turns):
        started = time.process_time()
        call()
        times.append(1e3 * (time.process_time() - started))
    return times


def index_row(kind: str, ready: Ready, asked: Any, exact: Any, folder: Path) -> Row:
    from prompt_coevo.retrieval.dense.build import choose_type, write_index
    from prompt_coevo.retrieval.dense.faiss_package import load_faiss
    from prompt_coevo.retrieval.dense.index import open_vectors

    faiss = load_faiss()
    kind = choose_type(kind, len(ready), len(ready), DIMENSION)
    started = time.process_time()
    file = folder / write_index(faiss, ready, kind, folder, lambda done, total: None)
    built = time.process_time() - started
    started = time.perf_counter()
    index = open_vectors(faiss, file)
    opened = time.perf_counter() - started
    batches = np.array_split(asked, len(asked) // BATCH)
    found = np.concatenate([index.search(batch, K)[1] for batch in batches])
    batched = min(cpu_ms(lambda: [index.search(batch, K) for batch in batches], 3))
    single = min(cpu_ms(lambda: [index.search(asked[n : n + 1], K) for n in range(SINGLES)], 5))
    return {
        "index": kind,
        "recall_at_3": recall(found.tolist(), exact),
        "batched_ms": batched / len(asked),
        "single_ms": single / SINGLES,
        "build_cpu_s": built,
        "open_ms": 1e3 * opened,
        "mb": file.stat().st_size / 1e6,
    }


def floor_row(path: Path, asked: Any) -> Row:
    """Compare an exact query with reading the same data, in the faster of two ways."""
    import torch

    from prompt_coevo.retrieval.dense.faiss_package import load_faiss
    from prompt_coevo.retrieval.dense.search import FlatVectors

    index = FlatVectors(load_faiss(), path)
    vectors = np.asarray(np.load(path, mmap_mode="r"))
    as_tensor, line = torch.from_numpy(np.load(path, mmap_mode="c")), vectors.reshape(-1)
    reading: list[float] = []
    query: list[float] = []
    for turn in range(60):
        one = asked[turn : turn + 1]
        reading.append(min(*cpu_ms(as_tensor.sum, 1), *cpu_ms(lambda: line @ line, 1)))
        query += cpu_ms(lambda one=one: index.search(one, K), 1)
    return {
        "index": "Flat, one query and its floor",
        "single_ms": min(query),
        "floor_ms": min(reading),
        "times_the_floor": min(query) / min(reading),
        "times_the_floor_median": statistics.median(query) / statistics.median(reading),
        "gb_per_s": vectors.nbytes / min(reading) / 1e6,
    }


def encoder_rows(folder: Path) -> list[Row]:
    import torch

    from prompt_coevo.retrieval.dense.encoders import load

    texts = [passage["contents"] for passage in passages(2000)]
    shape = {"dimension": DIMENSION, "layers": 6, "heads": 12, "inner": 1536}
    encoder = load(f"mean:{save_tiny_encoder(folder, texts, **shape)}")
    asked = [query for query, _ in queries(512, 2000)]
    rows = []
    for numbers in dict.fromkeys([encoder._model.dtype, torch.float32]):
        encoder._model.to(numbers)
        # Passages and queries are encoded alike here, but repeated queries would be cached.
        batched = min(cpu_ms(lambda: encoder.encode_passages(asked), 3))
        single = min(cpu_ms(lambda: [encoder.encode_passages([text]) for text in asked[:64]], 3))
        long = min(cpu_ms(lambda: encoder.encode_passages(texts[:256]), 2))
        rows.append(
            {
                "encoder": f"MiniLM-L6 shape, {encoder.numbers}",
                "queries_per_cpu_s_batched": 1e3 * len(asked) / batched,
                "queries_per_cpu_s_single": 1e3 * 64 / single,
                "passages_per_cpu_s": 1e3 * 256 / long,
            }
        )
    return rows


def measure(size: int) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        for draw in (smooth, bags):
            vectors, asked = draw(size)
            exact = np.argsort(-(asked @ vectors.T), axis=1)[:, :K].tolist()
            made = [index_row(kind, Ready(vectors), asked, exact, folder) for kind in TYPES]
            rows += [{"vectors": draw.__name__, **row} for row in made]
        floor = floor_row(folder / "vectors.npy", asked)
        return [*rows, floor, *encoder_rows(folder / "encoder")]


def dense_rows(size: int = SIZE) -> list[dict[str, Any]]:
    """Measure the table in a separate process with one thread."""
    command = [sys.executable, __file__, "--measure", "--size", str(size)]
    environment = {**os.environ, **ONE_THREAD}
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    rows: list[dict[str, Any]] = json.loads(run.stdout.splitlines()[-1])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.size)))
        return
    rows = dense_rows(options.size)
    for row in rows:
        shown = [f"{value:.3f}" if isinstance(value, float) else value for value in row.values()]
        print("  ".join(f"{name} {value}" for name, value in zip(row, shown, strict=True)))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
