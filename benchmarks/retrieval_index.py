"""Compare the cost of BM25 with bm25s, tantivy and Lucene; `retrieval_wordnet.py` compares what they find.

    pip install 'prompt-coevo[retrieval]' bm25s==0.3.16 PyStemmer==3.1.0 tantivy==0.27.0
    python benchmarks/retrieval_index.py [--json FILE] [--sizes N ...] [--of ENGINE ...]

Lucene needs a JDK (`tests/helpers/lucene.py`). Passages are of 103 words that are nearly all shared
(`zipf_passages.py`), queried with 5 and with 103 words. `word_engines.py` says what the engines do.

Every measurement is a separate process, on one thread, and costs are its CPU time. An index is opened with
its files out of the page cache; `anonymous_mb` is the memory that is then its own. Lucene's costs are those
of its Java process, from the start, with a heap of at most 512 MB. Its times per query are those of a warm
virtual machine, and it has no batches.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from word_engines import BUILDERS, OPENERS, Search  # noqa: E402
from zipf_passages import write_zipf_corpus, zipf_queries  # noqa: E402

from helpers.lucene import lucene  # noqa: E402

QUERIES, BATCH, K = 2048, 256, 3
SHORT, LONG, LONG_QUERIES = 5, 103, 256
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
IMPORTS = {
    "bm25": ("prompt_coevo.retrieval.index.open", "prompt_coevo.retrieval.bm25.kernels"),
    "bm25s": ("bm25s", "numba", "Stemmer"),
    "tantivy": ("tantivy",),
    "lucene": (),
}

Row: TypeAlias = dict[str, Any]


def measure_build(name: str, folder: Path) -> Row:
    before = cpu_s()
    BUILDERS[name](folder)
    in_java = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {
        "build_cpu_s": cpu_s() - before,
        "build_peak_mb": (in_java if name == "lucene" else status()["VmHWM"]) / 1e3,
        "index_mb": sum(path.stat().st_size for path in (folder / name).rglob("*")) / 1e6,
    }


def measure_open(name: str, folder: Path) -> Row:
    """Measure from before the imports, which load compiled code, to the answer to the first query."""
    query = zipf_queries(1, SHORT)[0]
    before, cpu = status(), cpu_s()
    if name == "lucene":
        _, anonymous = lucene("time", folder / name, str(K), "1", lines=[query])
        return {
            "open_cpu_s": cpu_s() - cpu,
            "imports_cpu_s": 0.0,
            "anonymous_mb": int(anonymous) / 1e3,
        }
    for module in IMPORTS[name]:
        importlib.import_module(module)
    imports = cpu_s() - cpu
    OPENERS[name](folder, K)([query])
    return {
        "open_cpu_s": cpu_s() - cpu,
        "imports_cpu_s": imports,
        "anonymous_mb": (status()["RssAnon"] - before["RssAnon"]) / 1e3,
    }


def measure_queries(name: str, folder: Path) -> Row:
    asked = {"short": zipf_queries(QUERIES, SHORT), "long": zipf_queries(LONG_QUERIES, LONG)}
    if name == "lucene":
        times = {which: lucene_ms(folder / name, texts) for which, texts in asked.items()}
        return {
            f"{which}_{how}_ms": ms for which, ms in times.items() for how in ("batched", "single")
        }
    search = OPENERS[name](folder, K)
    return {**costs(search, asked["short"], "short_"), **costs(search, asked["long"], "long_")}


def lucene_ms(folder: Path, texts: list[str]) -> float:
    return float(lucene("time", folder, str(K), "5", lines=texts)[0])


def cpu_s() -> float:
    """Return the CPU seconds of this process and of those that it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def costs(search: Search, texts: list[str], which: str) -> Row:
    batches = [texts[first : first + BATCH] for first in range(0, len(texts), BATCH)]
    search(batches[0])
    batched = best_of(3, lambda: [search(batch) for batch in batches])
    single = best_of(3, lambda: [search([text]) for text in texts])
    return {
        f"{which}batched_ms": 1e3 * batched / len(texts),
        f"{which}single_ms": 1e3 * single / len(texts),
    }


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


def in_a_process(task: str, name: str, folder: Path) -> Row:
    command = [sys.executable, __file__, "--task", task, name, str(folder)]
    environment = {**os.environ, **ONE_THREAD}
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    row: Row = json.loads(run.stdout.splitlines()[-1])
    return row


TASKS: dict[str, Callable[[str, Path], Row]] = {
    "build": measure_build,
    "open": measure_open,
    "queries": measure_queries,
}


def measured(name: str, folder: Path) -> Row:
    built = in_a_process("build", name, folder)
    forget(folder)
    opened = in_a_process("open", name, folder)
    return {**built, **opened, **in_a_process("queries", name, folder)}


def show(size: int, rows: dict[str, Row]) -> None:
    print(f"\n{size} passages".ljust(38) + "".join(f"{name:>14}" for name in rows))
    for key in next(iter(rows.values())):
        print(f"{key:37}" + "".join(f"{row[key]:14.3f}" for row in rows.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100_000])
    parser.add_argument("--of", nargs="*", default=list(IMPORTS), choices=list(IMPORTS))
    parser.add_argument("--work", type=Path, help="a folder for 3 GB of files")
    parser.add_argument("--task", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        task, name, folder = options.task
        print(json.dumps(TASKS[task](name, Path(folder))))
        return
    if "lucene" in options.of:
        lucene("tokens", lines=[])  # downloads and compiles
    result: dict[str, Any] = {"queries": QUERIES, "batch": BATCH, "k": K}
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        for size in options.sizes:
            folder = Path(work) / str(size)
            folder.mkdir()
            write_zipf_corpus(folder / "corpus.jsonl", size)
            result[str(size)] = {name: measured(name, folder) for name in options.of}
            show(size, result[str(size)])
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
