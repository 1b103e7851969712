"""Measure a graph's recall by its build and search settings, to show why faiss' defaults are not used.

    python benchmarks/retrieval_graphs.py [--json FILE] [--size N] [--made-with 40 128]

Graphs `HNSW32,SQ8` of the "smooth" vectors of retrieval_dense.py, made with several numbers of candidates
for each vector's neighbours (faiss takes 40) and searched with several (faiss takes 16). `recall_at_3` is
the share of the exact first three that is found; costs are CPU time on one thread.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import faiss  # noqa: E402
from retrieval_dense import DIMENSION, K, recall, smooth  # noqa: E402

SIZE, TRAINING = 1_000_000, 100_000
MADE_WITH, SEARCHED_WITH = (40, 128), (16, 64, 128, 256, 512, 1024)


def rows_of(size: int, made_with: list[int]) -> list[dict[str, Any]]:
    vectors, asked = smooth(size)
    exact = faiss.IndexFlatIP(DIMENSION)
    exact.add(vectors)
    wanted = exact.search(asked, K)[1].tolist()
    del exact
    rows = []
    for candidates in made_with:
        graph = faiss.index_factory(DIMENSION, "HNSW32,SQ8", faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = candidates
        began = time.process_time()
        graph.train(vectors[:: max(1, size // TRAINING)])
        graph.add(vectors)
        built = time.process_time() - began
        for kept in SEARCHED_WITH:
            graph.hnsw.efSearch = kept
            began = time.process_time()
            found = graph.search(asked, K)[1].tolist()
            spent = time.process_time() - began
            row = {
                "made_with": candidates,
                "searched_with": kept,
                "recall_at_3": recall(found, wanted),
                "ms": 1e3 * spent / len(asked),
                "build_cpu_s": built,
            }
            print(row, file=sys.stderr)
            rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--made-with", type=int, nargs="+", default=list(MADE_WITH))
    options = parser.parse_args()
    faiss.omp_set_num_threads(1)
    rows = rows_of(options.size, options.made_with)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
