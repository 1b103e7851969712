"""Compare BM25's quality and cost with bm25s, on invented passages; `retrieval_dense.py` is the other half.

    python benchmarks/retrieval_index.py [--json FILE] [--sizes N ...] [--corpora zipf invented]

"zipf" are passages of 103 words that are nearly all shared (`zipf_passages.py`), queried with 5 and with
103 words; "invented" are those of the tests, most of which contain a unique word, with questions that have
one right passage.

BM25 is compared with the package bm25s (with numba and without), loaded with memory-mapped scores. Both
get the same words, those of `Words`. Every measurement is a separate process: costs are its CPU time on one
thread, memory is from `/proc` (anonymous and mapped pages apart). Before the first query of "cold", the
index is dropped from the page cache.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from zipf_passages import write_zipf_corpus, zipf_queries  # noqa: E402

from helpers.passages import queries, write_corpus  # noqa: E402
from prompt_coevo.retrieval.bm25.words import STOP_WORDS  # noqa: E402

QUERIES, BATCH, K = 2048, 256, 3
SHORT, LONG, LONG_QUERIES = 5, 103, 256
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

Found: TypeAlias = list[list[str]]
Row: TypeAlias = dict[str, Any]


class Words:
    """Find runs of letters and digits, without stop words: cheap, because scoring is compared."""

    def words(self, text: str) -> list[str]:
        return [word for word in re.findall(r"\w+", text.lower()) if word not in STOP_WORDS]


def build_ours(folder: Path) -> None:
    from prompt_coevo.retrieval.index.build import Request, build

    build(
        folder / "corpus.jsonl",
        folder / "ours",
        Request(analyzer="retrieval_index:Words"),
        force=True,
    )


def open_ours(folder: Path) -> Callable[[Sequence[str]], Found]:
    from prompt_coevo.retrieval.index.open import open_index

    index = open_index(folder / "ours")
    return lambda asked: [[hit.id for hit in hits] for hits in index.search(asked, K)]


def build_bm25s(folder: Path) -> None:
    import bm25s

    from prompt_coevo.retrieval.bm25.build import K1, B

    index = bm25s.BM25(method="lucene", k1=K1, b=B)
    with (folder / "corpus.jsonl").open() as lines:
        split = [Words().words(json.loads(line)["contents"]) for line in lines]
    index.index(split, show_progress=False)
    index.save(folder / "bm25s")


def open_bm25s(folder: Path, backend: str) -> Callable[[Sequence[str]], Found]:
    import bm25s

    index = bm25s.BM25.load(folder / "bm25s", mmap=True)
    index.backend = backend

    def search(asked: Sequence[str]) -> Found:
        split = [Words().words(query) for query in asked]
        rows = index.retrieve(split, k=K, show_progress=False, n_threads=0).documents
        return [[str(row) for row in found] for found in rows.tolist()]

    return search


BUILDERS = {"bm25": build_ours, "bm25s": build_bm25s}
OPENERS: dict[str, Callable[[Path], Callable[[Sequence[str]], Found]]] = {
    "bm25": open_ours,
    "bm25s+numba": lambda folder: open_bm25s(folder, "numba"),
    "bm25s": lambda folder: open_bm25s(folder, "numpy"),
}
IMPORTS = {
    "bm25": ("prompt_coevo.retrieval.index.open", "prompt_coevo.retrieval.bm25.kernels"),
    "bm25s+numba": ("bm25s", "numba"),
    "bm25s": ("bm25s",),
}


def measure_build(name: str, folder: Path) -> Row:
    started = time.process_time()
    BUILDERS[name](folder)
    files = list((folder / ("ours" if name == "bm25" else name)).rglob("*"))
    return {
        "build_cpu_s": time.process_time() - started,
        "build_peak_mb": status()["VmHWM"] / 1e3,
        "index_mb": sum(path.stat().st_size for path in files if path.is_file()) / 1e6,
    }


def measure_open(name: str, folder: Path, size: int) -> Row:
    """Measure from before the imports, which load compiled code, to the answer to the first query."""
    query = zipf_queries(1, SHORT)[0] if is_zipf(folder) else queries(1, size)[0][0]
    before = status()
    started = time.perf_counter()
    cpu = time.process_time()
    for module in IMPORTS[name]:
        importlib.import_module(module)
    imports = time.process_time() - cpu
    OPENERS[name](folder)([query])
    seconds, after = time.perf_counter() - started, status()
    return {
        "open_and_first_query_s": seconds,
        "open_cpu_s": time.process_time() - cpu,
        "imports_cpu_s": imports,
        "anonymous_mb": (after["RssAnon"] - before["RssAnon"]) / 1e3,
        "mapped_mb": (after["RssFile"] - before["RssFile"]) / 1e3,
    }


def measure_queries(name: str, folder: Path, size: int) -> Row:
    search = OPENERS[name](folder)
    if is_zipf(folder):
        short, long = zipf_queries(QUERIES, SHORT), zipf_queries(LONG_QUERIES, LONG)
        return {**costs(search, short, "short_"), **costs(search, long, "long_")}
    asked = queries(QUERIES, size)
    found = [hits for first in range(0, QUERIES, BATCH) for hits in search(texts_of(asked, first))]
    right = [own_id in hits for hits, (_, own_id) in zip(found, asked, strict=True)]
    return {"recall_at_3": sum(right) / QUERIES, **costs(search, [text for text, _ in asked], "")}


def texts_of(asked: Sequence[tuple[str, str]], first: int) -> list[str]:
    return [text for text, _ in asked[first : first + BATCH]]


def costs(search: Callable[[Sequence[str]], Found], texts: list[str], which: str) -> Row:
    batches = [texts[first : first + BATCH] for first in range(0, len(texts), BATCH)]
    search(batches[0])
    batched = best_of(3, lambda: [search(batch) for batch in batches])
    single = best_of(3, lambda: [search([text]) for text in texts])
    return {
        f"{which}batched_ms": 1e3 * batched / len(texts),
        f"{which}single_ms": 1e3 * single / len(texts),
    }


def is_zipf(folder: Path) -> bool:
    return folder.parent.name == "zipf"


def best_of(repeats: int, call: Callable[[], Any]) -> float:
    """Return the CPU seconds of the fastest repetition: the machine's other work only ever adds."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return min(times)


def status() -> dict[str, int]:
    """Return this process's memory in kB."""
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) for words in lines if words[-1] == "kB"}


def forget(folder: Path) -> None:
    """Drop the files from the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def in_a_process(task: str, name: str, folder: Path, size: int) -> Row:
    command = [sys.executable, __file__, "--task", task, name, str(folder), str(size)]
    environment = {**os.environ, **ONE_THREAD}
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    row: Row = json.loads(run.stdout.splitlines()[-1])
    return row


def do_task(task: str, name: str, folder: Path, size: int) -> Row:
    if task == "build":
        return measure_build(name, folder)
    if task == "open":
        return measure_open(name, folder, size)
    return measure_queries(name, folder, size)


def bm25_rows(size: int, folder: Path, names: Sequence[str]) -> dict[str, Row]:
    folder.mkdir(parents=True)
    (write_zipf_corpus if is_zipf(folder) else write_corpus)(folder / "corpus.jsonl", size)
    wanted = [name for name in BUILDERS if any(name in full.partition("+") for full in names)]
    built = {name: in_a_process("build", name, folder, size) for name in wanted}
    rows = {}
    for name in names:
        forget(folder)
        cold = in_a_process("open", name, folder, size)
        warm = in_a_process("open", name, folder, size)
        rows[name] = {
            **built[name.partition("+")[0]],
            **{f"cold_{key}": value for key, value in cold.items()},
            **{f"warm_{key}": value for key, value in warm.items()},
            **in_a_process("queries", name, folder, size),
        }
    return rows


def show(size: str, rows: dict[str, Row]) -> None:
    print(f"\n{size} passages".ljust(38) + "".join(f"{name:>14}" for name in rows))
    for key in next(iter(rows.values())):
        print(f"{key:37}" + "".join(f"{row[key]:14.3f}" for row in rows.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--corpora", nargs="*", default=["zipf", "invented"])
    parser.add_argument("--of", nargs="*", default=list(OPENERS), choices=list(OPENERS))
    parser.add_argument("--work", type=Path, help="a folder for 3 GB of files")
    parser.add_argument("--task", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        task, name, folder, size = options.task
        print(json.dumps(do_task(task, name, Path(folder), int(size))))
        return
    result: dict[str, Any] = {"queries": QUERIES, "batch": BATCH, "k": K}
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        for corpus in options.corpora:
            result[corpus] = {}
            for size in options.sizes:
                folder = Path(work) / corpus / str(size)
                result[corpus][str(size)] = bm25_rows(size, folder, options.of)
                show(f"{size} {corpus}", result[corpus][str(size)])
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
