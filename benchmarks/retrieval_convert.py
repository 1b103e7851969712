"""Measure the conversion of a ready exact index to other types, without embedding.

    python benchmarks/retrieval_convert.py [--json FILE] [--size N] [--types SQfp16 HNSW32,SQ8 ...]

The vectors are the "smooth" ones of retrieval_dense.py, in an index that faiss wrote. Each conversion runs
in a separate process with one thread. `recall_at_3` is the share of the source's first three that the new
index finds; `times_read` how many times the bytes of the source's vectors were read; `peak_mb` the growth
in memory, next to `said_mb`, the estimate of `retrieval build --dry-run`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import numpy as np  # noqa: E402
from retrieval_dense import DIMENSION, ONE_THREAD, K, recall, smooth  # noqa: E402

SIZE = 100_000
TYPES = ("SQfp16", "SQ8", "IVF,SQ8", "IVF,PQ48x4", "HNSW32,SQ8")


def peak_mb() -> float:
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3


def convert(source: Path, kind: str, folder: Path) -> dict[str, Any]:
    """Return one row of the table, measured in this process."""
    from prompt_coevo.retrieval.dense.build import choose_type, write_index
    from prompt_coevo.retrieval.dense.faiss_package import load_faiss
    from prompt_coevo.retrieval.dense.index import open_vectors
    from prompt_coevo.retrieval.dense.stored import StoredVectors

    faiss = load_faiss()
    ready = StoredVectors(faiss, source)
    made = choose_type(kind, len(ready), len(ready), ready.dimension)
    before, began = peak_mb(), time.process_time()
    file = folder / write_index(faiss, ready, made, folder, lambda done, total: None)
    cpu, peak = time.process_time() - began, peak_mb() - before
    asked = np.load(source.with_suffix(".asked.npy"))
    wanted = np.load(source.with_suffix(".wanted.npy")).tolist()
    found = open_vectors(faiss, file).search(asked, K)[1].tolist()
    return {
        "index": made,
        "vectors": len(ready),
        "recall_at_3": recall(found, wanted),
        "times_read": ready.bytes_read / (4 * len(ready) * ready.dimension),
        "cpu_s": cpu,
        "mb": file.stat().st_size / 1e6,
        "peak_mb": peak,
        "said_mb": said_mb(kind, source, len(ready)),
    }


def said_mb(kind: str, source: Path, count: int) -> float:
    from prompt_coevo.retrieval.dense import estimate

    estimate.dimension_of = lambda name: DIMENSION  # there is no encoder here
    said = estimate.foresee("none", kind, source, [count])
    assert said is not None
    return said.memory / 1e6


def measure(size: int, types: list[str]) -> list[dict[str, Any]]:
    from prompt_coevo.retrieval.dense.faiss_package import load_faiss

    faiss = load_faiss()
    with tempfile.TemporaryDirectory() as work:
        source = Path(work) / "flat.index"
        vectors, asked = smooth(size)
        exact = faiss.IndexFlatIP(DIMENSION)
        exact.add(vectors)
        faiss.write_index(exact, str(source))
        np.save(source.with_suffix(".asked.npy"), asked)
        np.save(source.with_suffix(".wanted.npy"), exact.search(asked, K)[1])
        del vectors, exact
        rows = []
        for kind in types:
            folder = Path(work) / "out"
            folder.mkdir(exist_ok=True)
            command = [sys.executable, "-P", __file__, "--convert", str(source), kind, str(folder)]
            run = subprocess.run(
                command, env={**os.environ, **ONE_THREAD}, stdout=subprocess.PIPE, check=True
            )
            rows.append(json.loads(run.stdout.splitlines()[-1]))
            print(rows[-1], file=sys.stderr)
        return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--types", nargs="+", default=list(TYPES))
    parser.add_argument("--convert", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.convert:
        source, kind, folder = options.convert
        print(json.dumps(convert(Path(source), kind, Path(folder))))
        return
    rows = measure(options.size, options.types)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
