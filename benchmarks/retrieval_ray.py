"""Measure shards on several servers: the cost of merging, the latency, and what kills do.

    python benchmarks/retrieval_ray.py [--only cost waits kills] [--json FILE]

`cost`: CPU time per query of the shards' servers and of the front, from their /metrics, for an index of
PASSAGES passages of 103 words by Zipf's law (`zipf_passages.py`) in 1, 2 and 4 shards, next to one server
with the whole index. Queries have QUERY_WORDS words, top 3, one thread each, no cache.

`waits`: latency with shards that sleep WAITS_S in every search instead of computing, as shards on machines
of their own would; `direct` asks one of them without a front.

`kills`: servers on a Ray cluster of NODES nodes on this machine, lost one after the other under load. Each
answer is compared with the whole index's. `answers after` is the time from the kill to the first complete
answer to a query that was asked after it, `replaced after` the time until the new server is up. Needs ray.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from zipf_passages import write_zipf_corpus, zipf_queries  # noqa: E402

from prompt_coevo.retrieval.client.bench import measure_load  # noqa: E402
from prompt_coevo.retrieval.client.client import RemoteRetriever  # noqa: E402
from prompt_coevo.retrieval.client.sharded import ShardedRetriever  # noqa: E402
from prompt_coevo.retrieval.errors import RetrieverUnavailable  # noqa: E402
from prompt_coevo.retrieval.index.build import Request, build  # noqa: E402
from prompt_coevo.retrieval.index.open import open_index  # noqa: E402
from prompt_coevo.retrieval.retriever import Hit, IndexInfo  # noqa: E402
from prompt_coevo.retrieval.shards import ShardOf  # noqa: E402

PASSAGES, QUERIES, QUERY_WORDS = 20_000, 20_000, 8
PATTERNS = [(16, 1), (4, 256)]
SECONDS, WAITS_S, NODES = 4.0, 0.02, 4
SERVE = [sys.executable, "-P", "-c", "from prompt_coevo.cli import main; main()"]
SERVE += ["retrieval", "serve", "--port", "0"]
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_agent_register_timeout_ms": "900000",  # a busy machine starts a node's agent late
}

Row: TypeAlias = dict[str, Any]


class Sleeping:
    """A shard that waits and finds made-up passages."""

    def __init__(self, number: int, of: int) -> None:
        self._is = ShardOf("asleep", number, of, of)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        time.sleep(WAITS_S)
        return [[Hit(str(n), "text " * 100, 1 / n, n) for n in range(1, k + 1)] for _ in queries]

    def info(self) -> IndexInfo:
        return IndexInfo("asleep", 1, self._is.fingerprint, self._is.details())

    def close(self) -> None:
        pass


@contextlib.contextmanager
def servers(commands: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """Run `retrieval serve` with each of the arguments; yield the addresses once they can be searched."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen([*SERVE, *one], stdout=subprocess.PIPE, text=True, env=environment)
        for one in commands
    ]
    try:
        addresses = []
        for process in running:
            assert process.stdout is not None
            address = process.stdout.readline().split()[1].removesuffix("/retrieve")
            warm = RemoteRetriever(address, total_timeout_s=600)
            warm.info()
            warm.close()
            addresses.append(address)
        yield addresses
    finally:
        for process in running:
            process.kill()
            process.wait()


@contextlib.contextmanager
def joined(commands: Sequence[Sequence[str]]) -> Iterator[tuple[str, list[str]]]:
    """Run these shards and a front; yield the front's address and theirs."""
    with servers(commands) as shards:
        given = json.dumps([[one] for one in shards])
        front = [
            "--retriever",
            "sharded",
            "--option",
            f"shards={given}",
            "--option",
            "cache_size=0",
        ]
        with servers([front]) as (address,):
            yield address, shards


def cpu_s(address: str) -> float:
    with urllib.request.urlopen(f"{address}/metrics") as reply:
        lines = reply.read().decode().splitlines()
    (line,) = (one for one in lines if one.startswith("process_cpu_seconds_total "))
    return float(line.split()[1])


def cost(folder: Path) -> list[Row]:
    """Measure CPU seconds per query."""
    corpus = write_zipf_corpus(folder / "corpus.jsonl", PASSAGES)
    queries = zipf_queries(QUERIES, QUERY_WORDS)
    rows: list[Row] = []

    def load(shards: int, address: str, parts: list[str]) -> None:
        for clients, per_call in PATTERNS:
            before = [cpu_s(one) for one in (address, *parts)]
            done = measure_load(
                *(address, queries), clients=clients, per_call=per_call, seconds=SECONDS, k=3
            )
            used = [cpu_s(one) - was for one, was in zip((address, *parts), before, strict=True)]
            row = {"shards": shards, "clients": clients, "per_call": per_call}
            row |= {"front_ms": used[0] / done.queries * 1e3, "errors": sum(done.errors.values())}
            row |= {"shards_ms": sum(used[1:]) / done.queries * 1e3, "queries": done.queries}
            print(row, flush=True)
            rows.append(row)

    for count in (1, 2, 4):
        index = folder / f"index-{count}"
        build(corpus, index, Request("bm25", shards=count))
        if count == 1:
            with servers([[str(index)]]) as (whole,):
                load(0, whole, [])
        one_each = [[str(index), "--shard", str(number)] for number in range(1, count + 1)]
        with joined(one_each) as (front, parts):
            load(count, front, parts)
    return rows


def waits() -> list[Row]:
    """Measure the latency with shards that sleep."""
    queries = [f"question {number}" for number in range(QUERIES)]
    rows: list[Row] = []
    for count in (1, 2, 4):
        option = ["--retriever", "retrieval_ray:Sleeping", "--option", f"of={count}"]
        shards = [[*option, "--option", f"number={n}"] for n in range(1, count + 1)]
        with joined(shards) as (front, parts):
            asked = [("front", front)] + ([("direct", parts[0])] if count == 1 else [])
            for name, address in asked:
                for clients in (1, 16):
                    done = measure_load(
                        *(address, queries), clients=clients, per_call=1, seconds=SECONDS, k=3
                    )
                    row = {"asked": name, "shards": count, "clients": clients}
                    row |= {f"p{q}_ms": done.latency_s(q / 100) * 1e3 for q in (50, 99)}
                    row |= {"errors": sum(done.errors.values())}
                    print(row, flush=True)
                    rows.append(row)
    return rows


class Load:
    """Search all the time in threads, and compare with the right answers."""

    def __init__(self, address: str, expected: dict[str, list[Hit]]) -> None:
        self._expected = expected
        self._remote = RemoteRetriever(address, total_timeout_s=120.0, cache_size=0)
        self._ended = threading.Event()
        self.answers = self.wrong = self.lost = 0
        self.latest = 0.0
        """When the last complete answer was asked for."""
        self._threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(8)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._remote.close()

    def _ask(self, number: int) -> None:
        own = list(self._expected)[number::8]
        while not self._ended.is_set():
            asked = time.monotonic()
            try:
                found = self._remote.search(own, 3)
            except RetrieverUnavailable:
                self.lost += len(own)
                continue
            self.answers += len(own)
            pairs = zip(own, found, strict=True)
            self.wrong += sum(hits != self._expected[query] for query, hits in pairs)
            self.latest = max(self.latest, asked)
            self._ended.wait(0.05)


def kills(folder: Path) -> list[Row]:
    """Kill servers and nodes of a Ray cluster under load."""
    os.environ.update(QUIET)
    import ray
    from ray.cluster_utils import Cluster

    from helpers.retrieval_server import free_port, serving
    from prompt_coevo.retrieval.server.ray_servers import Placement, RayServers
    from prompt_coevo.retrieval.server.settings import ServerSettings
    from standins.ray_start import give_time, tell_ports

    give_time(ray._private.services)
    tell_ports(ray._private.services)
    index = folder / "index-2"
    if not (index / "manifest.json").exists():
        corpus = write_zipf_corpus(folder / "corpus.jsonl", PASSAGES)
        build(corpus, index, Request("bm25", shards=2))
    queries, whole = zipf_queries(256, QUERY_WORDS), open_index(index)
    expected = dict(zip(queries, whole.search(queries, 3), strict=True))

    def node() -> dict[str, Any]:
        agents = ("metrics_agent", "metrics_export", "runtime_env_agent", "dashboard_agent_listen")
        ports = {f"{name}_port": free_port() for name in agents}
        return {"object_store_memory": 80_000_000, "include_log_monitor": False, **ports}

    head = {"num_cpus": 0, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head | node())
    for _ in range(NODES):
        cluster.add_node(num_cpus=1, **node())
    os.environ["RAY_ADDRESS"] = cluster.address
    rows: list[Row] = []

    def at(place: Any) -> tuple[int, str]:
        def look(_: Any) -> tuple[int, str]:
            return os.getpid(), ray.get_runtime_context().get_node_id()

        pid, node = ray.get(place.actor.__ray_call__.remote(look))
        return pid, node

    def lose(places: list[Any], how: str) -> None:
        nodes = {node.node_id: node for node in cluster.list_all_nodes()}
        found = [at(place) for place in places]
        for pid, node in found:
            if how == "node":
                cluster.remove_node(nodes[node], allow_graceful=False)
            else:
                os.kill(pid, signal.SIGSTOP if how == "frozen" else signal.SIGKILL)

    def measure(lost: str, load: Load, places: list[Any], how: str) -> None:
        if how == "node":
            cluster.add_node(num_cpus=1, **node())
        before, answers = {place: place.address for place in places}, load.answers
        lose(places, how)
        killed, complete, replaced = time.monotonic(), 0.0, 0.0
        while not (complete and replaced):
            time.sleep(0.02)
            now = time.monotonic() - killed
            if not complete and load.latest > killed:
                complete = now
            up = all(place.address not in (None, before[place]) for place in places)
            if not replaced and up:
                replaced = now
        row = {"replicas": len(ray_places) // 2, "lost": lost, "answers_after_s": complete}
        row |= {"replaced_after_s": replaced, "answers": load.answers - answers}
        row |= {"wrong": load.wrong, "lost_queries": load.lost}
        print(row, flush=True)
        rows.append(row)

    for replicas in (1, 2):
        with RayServers(Placement(index, None, ServerSettings(), replicas)) as running:
            ray_places = running._places
            front = ShardedRetriever(running.addresses(), cache_size=0)
            running.keep(front)
            with serving(front, ServerSettings()) as address:
                load = Load(address, expected)
                measure("process killed", load, ray_places[:1], "killed")
                if replicas == 2:
                    measure("process frozen", load, ray_places[1:2], "frozen")
                    measure("both processes of a shard", load, ray_places[2:], "killed")
                measure("node", load, ray_places[:1], "node")
                load.end()
            front.close()
    cluster.shutdown()
    return rows


def main(parts: Sequence[str], file: Path | None) -> None:
    results: Row = json.loads(file.read_text()) if file is not None and file.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measured = {"cost": lambda: cost(folder), "waits": waits, "kills": lambda: kills(folder)}
        for part in parts:
            results[part] = measured[part]()
            if file is not None:
                file.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    choices = ["cost", "waits", "kills"]
    parser.add_argument("--only", nargs="*", choices=choices, default=choices)
    parser.add_argument("--json", type=Path, help="write the results there; other parts stay")
    given = parser.parse_args()
    main(given.only, given.json)
