"""Check servers on a Ray cluster of several nodes: placed, killed one by one under load, and replaced."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")
import ray
from ray.cluster_utils import Cluster

from helpers.passages import queries, write_corpus
from helpers.retrieval_server import PATIENT, free_port, serving
from prompt_coevo.errors import HostError
from prompt_coevo.registry import RETRIEVAL_TOKEN_VARIABLE
from prompt_coevo.retrieval.client.client import RemoteRetriever
from prompt_coevo.retrieval.client.sharded import ShardedRetriever
from prompt_coevo.retrieval.errors import RetrieverUnavailable
from prompt_coevo.retrieval.index.build import Request, build
from prompt_coevo.retrieval.index.open import open_index
from prompt_coevo.retrieval.server import ray_servers
from prompt_coevo.retrieval.server.ray_servers import Placement, RayServers
from standins.ray_start import give_time, tell_ports

SHARDS, COUNT, NODES = 2, 400, 3
ASKED = [text for text, _ in queries(64, of=COUNT)]
TOKEN = "planted-token-0123456789"
# Clusters of several nodes on one machine, killed under load: minutes, and much for a busy machine.
pytestmark = pytest.mark.long

TOOL = [sys.executable, "-P", "-c", "from prompt_coevo.cli import main; main()", "retrieval"]
VARIABLES = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",  # otherwise it writes a token into the home folder
    "RAY_prestart_worker_first_driver": "0",
    "RAY_agent_register_timeout_ms": "900000",  # a busy machine starts a node's agent late
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    build(write_corpus(folder / "corpus.jsonl", COUNT), folder / "index", Request(shards=SHARDS))
    return folder / "index"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Return a cluster whose servers fit on any two of its nodes."""
    give_time(ray._private.services)
    tell_ports(ray._private.services)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="rv") as logs:
        for name, value in VARIABLES.items():
            patch.setenv(name, value)
        head = {"num_cpus": 0, "include_dashboard": False, "temp_dir": logs}  # short, for sockets
        made = Cluster(initialize_head=True, head_node_args=head | node())
        for _ in range(NODES):
            made.add_node(num_cpus=2, **node())
        patch.setenv("RAY_ADDRESS", made.address)
        made.logs = Path(logs)
        yield made
        made.shutdown()


def node() -> dict[str, Any]:
    """Return a node's options, with the ports of its agents (`tell_ports`)."""
    agents = ("metrics_agent", "metrics_export", "runtime_env_agent", "dashboard_agent_listen")
    ports = {f"{name}_port": free_port() for name in agents}
    return {"object_store_memory": 80_000_000, "include_log_monitor": False, **ports}


@contextmanager
def front(index: Path, replicas: int) -> Iterator[tuple[RayServers, str]]:
    """Serve a front as the command does; yield the servers and its address."""
    with RayServers(Placement(index, None, PATIENT, replicas)) as servers:
        merging = ShardedRetriever(servers.addresses(), total_timeout_s=5.0, cache_size=0)
        servers.keep(merging)
        with serving(merging) as address:
            yield servers, address
        merging.close()


class Load:
    """Search all the time in threads; compare every answer with the whole index's."""

    def __init__(self, address: str, index: Path) -> None:
        whole = open_index(index)
        self._expected = dict(zip(ASKED, whole.search(ASKED, 5), strict=True))
        whole.close()
        self._remote = RemoteRetriever(address, total_timeout_s=3600, cache_size=0)
        self._ended = threading.Event()
        self.answers, self.wrong, self.lost = 0, 0, list[str]()
        self._threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(4)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._remote.close()

    def _ask(self, number: int) -> None:
        while not self._ended.is_set():
            own = ASKED[number::4]
            try:
                found = self._remote.search(own, 5)
            except RetrieverUnavailable as error:
                self.lost.append(str(error))
                continue
            self.answers += len(own)
            self.wrong += sum(
                hits != self._expected[query] for query, hits in zip(own, found, strict=True)
            )
            self._ended.wait(0.05)

    def goes_on(self) -> None:
        """Wait for answers to questions that are asked from now on."""
        target = self.answers + 2 * len(ASKED)
        until(lambda: self.answers > target)


def until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.05)


def process_of(place: Any) -> tuple[int, str]:
    """Return a server's process and node."""
    told = place.actor.__ray_call__.remote(
        lambda _: (os.getpid(), ray.get_runtime_context().get_node_id())
    )
    pid, node = ray.get(told)
    return pid, node


def test_servers_are_killed_one_by_one_under_load(
    cluster: Cluster, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_servers, "_HANGS_AFTER_S", 5.0)
    with front(index, replicas=2) as (servers, address), Load(address, index) as load:
        load.goes_on()
        places = servers._places

        def replaced(*lost: Any) -> bool:
            return all(place.address not in (None, before[place]) for place in lost)

        for lost, way in (
            (places[:1], signal.SIGKILL),
            (places[1:2], signal.SIGSTOP),
            (places[2:4], signal.SIGKILL),  # a whole shard
        ):
            before = {place: place.address for place in places}
            for place in lost:
                os.kill(process_of(place)[0], way)
            until(lambda: replaced(*lost))  # noqa: B023
            load.goes_on()
        for _ in range(2):
            before = {place: place.address for place in places}
            nodes = {place: process_of(place)[1] for place in places}
            dead = nodes[places[0]]
            cluster.add_node(num_cpus=2, **node())
            cluster.remove_node(
                next(node for node in cluster.list_all_nodes() if node.node_id == dead),
                allow_graceful=False,
            )
            lost = [place for place in places if nodes[place] == dead]
            until(lambda: replaced(*lost))  # noqa: B023
            assert dead not in {process_of(place)[1] for place in lost}
            load.goes_on()
    assert (load.wrong, load.lost) == (0, [])
    assert load.answers > 12 * len(ASKED)


def test_the_command_serves_until_it_is_interrupted(
    cluster: Cluster, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RETRIEVAL_TOKEN_VARIABLE, TOKEN)
    command = [*TOOL, "serve", str(index), "--ray", "--port", "0", "--set", "max_k=200"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ.copy()
    )
    assert process.stdout is not None
    shards = [re.match(r"shard (\d): (\S+)\n", process.stdout.readline()) for _ in range(SHARDS)]
    assert [one and one[1] for one in shards] == ["1", "2"]
    word, address = process.stdout.readline().split()
    assert word == "serving"
    remote, here = RemoteRetriever(address, total_timeout_s=3600), open_index(index)
    assert remote.search(ASKED, 5) == here.search(ASKED, 5)
    assert remote.search(ASKED[:1], 100) == here.search(ASKED[:1], 100)
    assert remote.info().fingerprint == here.info().fingerprint
    remote.close()
    alone = RemoteRetriever(shards[0][2], total_timeout_s=0.5)  # type: ignore[index]
    assert ".1of2" in alone.info().fingerprint
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert TOKEN not in errors

    def gone() -> bool:
        try:
            alone.info()
        except RetrieverUnavailable:
            return True
        return False

    until(gone)
    alone.close()
    written = [path for path in cluster.logs.rglob("*") if path.is_file()]
    assert any(path.name.startswith("raylet") for path in written)
    assert [path for path in written if TOKEN.encode() in path.read_bytes()] == []


def test_a_server_that_cannot_start_is_one_sentence(cluster: Cluster, index: Path) -> None:
    taken = Placement(index, index / "manifest.json", PATIENT)
    with (
        pytest.raises(
            HostError,
            match=r"replica 1 of shard \d of 2 could not start: IndexFileError: the index .* corpus",
        ),
        RayServers(taken),
    ):
        pass
    assert not ray.is_initialized()


@pytest.mark.parametrize("error", [ConnectionError, RuntimeError])
def test_without_a_cluster_the_sentence_says_how_to_start_one(
    error: type[Exception], index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**_: object) -> None:
        raise error("a page of Ray's")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(HostError, match="there is no Ray cluster here; start one by `ray start"):
        RayServers(Placement(index, None, PATIENT))
