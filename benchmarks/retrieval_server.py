"""The retrieval server next to ones that search every request by itself, on the same index.

    python benchmarks/retrieval_server.py [--kinds bm25 dense] [--folder DIR] [--json FILE]

PASSAGES synthetic passages; CLIENTS clients send one query at a time, all different, top 3. The servers
take turns, ROUNDS times; only one runs at a time. Counted is the CPU time of the server's process with
all its threads, by /proc: the clients share the machine's cores, so wall-clock numbers say less. The
other servers are in benchmarks/one_by_one_server.py: `search_r1`, to which the target refers, and
`lean`, which shows what is left if only the batching differs. Threads are as they come (our server lets
waiting ones sleep, which counts where there is other work); `one_thread` is with OMP_NUM_THREADS=1.
`step` is an INSPO step's 10 240 queries in one call of RemoteRetriever.

The dense index is exact (Flat); its encoder has MiniLM's shape (6 layers, 384 wide) and random weights,
which cost what trained ones do, and its passages are cut to DENSE_WORDS words, to be embedded in
minutes: a search costs the same. Needs the extra retrieval, torch, transformers, and fastapi for
`search_r1`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from helpers.passages import passages, queries, write_corpus  # noqa: E402
from prompt_coevo.retrieval.client.bench import Load, measure_load  # noqa: E402
from prompt_coevo.retrieval.client.client import RemoteRetriever  # noqa: E402
from prompt_coevo.retrieval.index.build import Request, build  # noqa: E402

PASSAGES, CLIENTS, ROUNDS, STEP = 100_000, 64, 3, 10_240
SECONDS = {"bm25": 8.0, "dense": 15.0}
DIMENSION, LAYERS, HEADS = 384, 6, 12
ENCODER_TEXTS, DENSE_WORDS = 5_000, 8
TARGETS = {"bm25": 3.5, "dense": 10.0}
TICKS = os.sysconf("SC_CLK_TCK")
SURROUNDINGS = dict(os.environ)
# For the building; the servers have the surroundings as they were.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


def build_index(kind: str, folder: Path) -> Path:
    """An index in a folder of its own."""
    corpus, index = folder / f"{kind}.jsonl", folder / kind
    if (index / "manifest.json").exists():
        return index
    if kind == "bm25":
        build(write_corpus(corpus, PASSAGES), index, Request("bm25"))
        return index
    with corpus.open("w", encoding="utf-8") as file:
        for passage in passages(PASSAGES):
            contents = " ".join(passage["contents"].split()[:DENSE_WORDS])
            file.write(json.dumps({**passage, "contents": contents}) + "\n")
    encoder = save_encoder(folder / "encoder")
    build(corpus, index, Request("dense", f"mean:{encoder}", index="Flat"))
    return index


def save_encoder(folder: Path) -> Path:
    """A checkpoint of MiniLM's shape; the tokenizer is the tests', one token a word."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    from helpers.tiny_encoder import save_tiny_encoder

    save_tiny_encoder(folder, [passage["contents"] for passage in passages(ENCODER_TEXTS)])
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
    """A server as a process; yields address and process id. Its log goes to a file."""
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


def commands(index: Path) -> dict[str, list[str]]:
    tool = "from prompt_coevo.cli import main; main()"
    serve = [sys.executable, "-P", "-c", tool, "retrieval", "serve", str(index), "--port", "0"]
    other = [sys.executable, "-P", str(ROOT / "benchmarks" / "one_by_one_server.py")]
    return {
        "ours": serve,
        "search_r1": [*other, "search_r1", str(index)],
        "lean": [*other, "lean", str(index)],
    }


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def wait_until_warm(address: str) -> None:
    remote = RemoteRetriever(address, total_timeout_s=120.0)
    remote.info()
    remote.close()


def measure(
    command: list[str], texts: list[str], seconds: float, threads: dict[str, str]
) -> tuple[Load, float]:
    """The load and the server's CPU seconds for it."""
    with running(command, threads) as (address, pid):
        wait_until_warm(address)
        measure_load(address, texts, clients=CLIENTS, seconds=2.0)
        before = cpu_seconds(pid)
        load = measure_load(address, texts[::-1], clients=CLIENTS, seconds=seconds)
        return load, cpu_seconds(pid) - before


def step(command: list[str], texts: list[str]) -> dict[str, float]:
    """A whole step's queries at once."""
    with running(command, {}) as (address, pid):
        wait_until_warm(address)
        remote = RemoteRetriever(address)
        before, started = cpu_seconds(pid), time.perf_counter()
        found = remote.search_each(texts[:STEP], 3)
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


def summary(rounds: list[tuple[Load, float]]) -> dict[str, Any]:
    def median(values: list[float]) -> float:
        return statistics.median(values)

    return {
        "queries_per_cpu_s": median([len(load.latencies_s) / cpu for load, cpu in rounds]),
        "queries_per_cpu_s_of_rounds": [len(load.latencies_s) / cpu for load, cpu in rounds],
        "queries_per_s": median([load.queries_per_s for load, _ in rounds]),
        "latency_ms": {
            name: 1000 * median([load.latency_s(quantile) for load, _ in rounds])
            for name, quantile in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
        },
        "errors": sum(sum(load.errors.values()) for load, _ in rounds),
    }


def compare(kind: str, index: Path, texts: list[str], threads: dict[str, str]) -> dict[str, Any]:
    rounds: dict[str, list[tuple[Load, float]]] = {name: [] for name in commands(index)}
    for _ in range(ROUNDS):
        for name, command in commands(index).items():
            rounds[name].append(measure(command, texts, SECONDS[kind], threads))
    servers = {name: summary(measured) for name, measured in rounds.items()}
    ours = servers["ours"]["queries_per_cpu_s"]
    others = [name for name in servers if name != "ours"]
    return {
        **servers,
        "ratio_to": {name: ours / servers[name]["queries_per_cpu_s"] for name in others},
    }


def results_of(kind: str, folder: Path) -> dict[str, Any]:
    index = build_index(kind, folder)
    texts = list(dict.fromkeys(text for text, _ in queries(60_000, of=PASSAGES)))
    found = compare(kind, index, texts, {})
    if kind == "dense":
        found["one_thread"] = compare(kind, index, texts, {"OMP_NUM_THREADS": "1"})
    return {
        **found,
        "target": TARGETS[kind],
        "reached": found["ratio_to"]["search_r1"] >= TARGETS[kind],
        "step": step(commands(index)["ours"], texts),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kinds", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--folder", type=Path, help="where indexes are kept for the next time")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="retrieval-server-") as temporary:
        folder = options.folder or Path(temporary)
        kinds = {kind: results_of(kind, folder) for kind in options.kinds}
    results = {"passages": PASSAGES, "clients": CLIENTS, "cores": os.cpu_count(), **kinds}
    text = json.dumps(results, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
