"""Compare the retrieval server with one that searches every request alone, on the same index.

    python benchmarks/retrieval_server.py [--kinds bm25 dense] [--folder DIR] [--json FILE]

PASSAGES passages of 103 words by Zipf's law (`zipf_passages.py`), queries of QUERY_WORDS words, all
different, top 3. PATTERNS are clients, and how many queries each sends in a call. The servers take turns,
ROUNDS times, and only one runs at a time; the best of the rounds counts, since other work on the machine
only takes away. Measured is the CPU time of the server's process with all its threads, by /proc: the
clients share the machine's cores, so wall-clock numbers say less. The other servers are in
benchmarks/one_by_one_server.py: `search_r1`, to which the targets refer, and with `--lean` `lean`, which
shows what is left if only the batching differs. `one thread` is with OMP_NUM_THREADS=1, `all cores`
without. `step` is an INSPO step's 10 240 queries in one call of RemoteRetriever.

The dense index is exact (Flat); its encoder has MiniLM's shape (6 layers, 384 wide) and random weights,
which cost what trained ones do, and its passages are cut to DENSE_WORDS words, to be embedded in
minutes: a search costs the same. Needs the extra retrieval, torch, transformers, and fastapi for
`search_r1`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from zipf_passages import LENGTH, write_zipf_corpus, zipf_queries  # noqa: E402

from prompt_coevo.retrieval.client.bench import measure_load  # noqa: E402
from prompt_coevo.retrieval.client.client import RemoteRetriever  # noqa: E402
from prompt_coevo.retrieval.index.build import Request, build  # noqa: E402

PASSAGES, ROUNDS, STEP = 100_000, 2, 10_240
PATTERNS = [(1, 1), (16, 1), (64, 1), (256, 1), (1, 256), (4, 256)]
QUERIES, QUERY_WORDS = 40_000, 8
SECONDS = {"bm25": 4.0, "dense": 6.0}
DIMENSION, LAYERS, HEADS = 384, 6, 12
ENCODER_TEXTS, DENSE_WORDS = 5_000, 8
TARGETS = {"bm25": {(64, 1): 3.5, (1, 256): 2.0}, "dense": {(64, 1): 10.0, (1, 256): 4.0}}
THREADS = {"one thread": {"OMP_NUM_THREADS": "1"}, "all cores": {}}
TICKS = os.sysconf("SC_CLK_TCK")
SURROUNDINGS = dict(os.environ)
# For the building; the servers have the surroundings as they were.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


Row: TypeAlias = dict[str, Any]


def build_index(kind: str, folder: Path) -> Path:
    """Build an index in its folder, unless it exists."""
    corpus, index = folder / f"{kind}.jsonl", folder / kind
    if (index / "manifest.json").exists():
        return index
    write_zipf_corpus(corpus, PASSAGES, LENGTH if kind == "bm25" else DENSE_WORDS)
    request = Request("bm25")
    if kind == "dense":
        encoder = save_encoder(folder / "encoder", zipf_queries(ENCODER_TEXTS, LENGTH))
        request = Request("dense", f"mean:{encoder}", index="Flat")
    build(corpus, index, request)
    return index


def save_encoder(folder: Path, texts: list[str]) -> Path:
    """Save a checkpoint of MiniLM's shape; the tokenizer is the tests', one token a word."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    from helpers.tiny_encoder import save_tiny_encoder

    save_tiny_encoder(folder, texts)
    shape = BertConfig(
        vocab_size=len(AutoTokenizer.from_pretrained(folder)),
        hidden_size=DIMENSION,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * DIMENSION,
    )
    BertModel(shape).save_pretrained(folder)
    return folder


@contextlib.contextmanager
def running(command: list[str], threads: dict[str, str]) -> Iterator[tuple[str, int]]:
    """Run a server as a process; yield address and process id. Its log goes to a file."""
    with tempfile.NamedTemporaryFile("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**SURROUNDINGS, **threads})
        try:
            yield address_in(Path(log.name), process), process.pid
        finally:
            process.terminate()
            process.wait()


def address_in(log: Path, process: subprocess.Popen[bytes]) -> str:
    while process.poll() is None:
        for line in log.read_text().splitlines():
            if line.startswith("serving "):
                return line.split()[1]
        time.sleep(0.1)
    raise SystemExit(f"{' '.join(map(str, process.args))} ended with status {process.returncode}")


def commands(index: Path, lean: bool) -> dict[str, list[str]]:
    tool = "from prompt_coevo.cli import main; main()"
    serve = [sys.executable, "-P", "-c", tool, "retrieval", "serve", str(index), "--port", "0"]
    other = [sys.executable, "-P", str(ROOT / "benchmarks" / "one_by_one_server.py")]
    shapes = ["search_r1", *(["lean"] if lean else [])]
    return {"ours": serve, **{shape: [*other, shape, str(index)] for shape in shapes}}


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def wait_until_warm(address: str) -> None:
    remote = RemoteRetriever(address, total_timeout_s=120.0)
    remote.info()
    remote.close()


def measure(
    command: list[str], texts: list[str], seconds: float, threads: dict[str, str]
) -> dict[str, Row]:
    """Measure each pattern on one server."""
    rows = {}
    with running(command, threads) as (address, pid):
        wait_until_warm(address)
        for clients, per_call in PATTERNS:
            how: dict[str, Any] = {"clients": clients, "per_call": per_call}
            measure_load(address, texts, seconds=min(seconds / 4, 1.0), **how)
            before = cpu_seconds(pid)
            load = measure_load(address, texts[::-1], seconds=seconds, **how)
            rows[name_of(clients, per_call)] = {
                "queries_per_cpu_s": load.queries / (cpu_seconds(pid) - before),
                "queries_per_s": load.queries_per_s,
                "latency_ms": {
                    f"p{100 * q:g}": 1000 * load.latency_s(q) for q in (0.5, 0.95, 0.99)
                },
                "errors": sum(load.errors.values()),
            }
    return rows


def name_of(clients: int, per_call: int) -> str:
    return f"{clients} x {per_call}"


def step(command: list[str], texts: list[str]) -> dict[str, float]:
    """Send a whole step's queries at once."""
    with running(command, {}) as (address, pid):
        wait_until_warm(address)
        remote = RemoteRetriever(address)
        before, started = cpu_seconds(pid), time.perf_counter()
        found = asyncio.run(remote.search_each(texts[:STEP], 3))
        seconds = time.perf_counter() - started
        used = cpu_seconds(pid) - before
        remote.close()
    answered = sum(isinstance(hits, list) for hits in found)
    return {
        "queries": STEP,
        "answered": answered,
        "seconds": seconds,
        "queries_per_cpu_s": answered / used,
    }


def compare(
    kind: str, servers: dict[str, list[str]], texts: list[str], threads: dict[str, str]
) -> dict[str, Any]:
    rounds: dict[str, list[dict[str, Row]]] = {name: [] for name in servers}
    for _ in range(ROUNDS):
        for name, command in servers.items():
            rounds[name].append(measure(command, texts, SECONDS[kind], threads))
    best = {
        name: {pattern: best_of([row[pattern] for row in rows]) for pattern in rows[0]}
        for name, rows in rounds.items()
    }
    ratios = {
        pattern: {
            key: row[key] / best["search_r1"][pattern][key]
            for key in ("queries_per_cpu_s", "queries_per_s")
        }
        for pattern, row in best["ours"].items()
    }
    return {**best, "ratio": ratios}


def best_of(rows: list[Row]) -> Row:
    return {
        **max(rows, key=lambda row: row["queries_per_s"]),
        "queries_per_cpu_s": max(row["queries_per_cpu_s"] for row in rows),
        "errors": sum(row["errors"] for row in rows),
    }


def results_of(kind: str, folder: Path, lean: bool) -> dict[str, Any]:
    index = build_index(kind, folder)
    servers = commands(index, lean)
    texts = list(dict.fromkeys(zipf_queries(QUERIES, QUERY_WORDS)))
    results: dict[str, Any] = {}
    for name, threads in THREADS.items():
        results[name] = compare(kind, servers, texts, threads)
        show(kind, name, results[name]["ratio"])
    reached = {
        name_of(*pattern): {"target": target}
        | {
            name: results[name]["ratio"][name_of(*pattern)]["queries_per_cpu_s"] >= target
            for name in THREADS
        }
        for pattern, target in TARGETS[kind].items()
    }
    return {**results, "reached": reached, "step": step(servers["ours"], texts)}


def show(kind: str, threads: str, ratios: dict[str, Row]) -> None:
    print(f"{kind}, {threads}: times search_r1 per CPU second / on the clock")
    for pattern, ratio in ratios.items():
        print(f"  {pattern:>8}  {ratio['queries_per_cpu_s']:5.2f} / {ratio['queries_per_s']:5.2f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kinds", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--folder", type=Path, help="where indexes are kept for the next time")
    parser.add_argument("--lean", action="store_true", help="measure `lean` as well")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="retrieval-server-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        kinds = {kind: results_of(kind, folder, options.lean) for kind in options.kinds}
    results = {"passages": PASSAGES, "query_words": QUERY_WORDS, "cores": os.cpu_count(), **kinds}
    text = json.dumps(results, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
