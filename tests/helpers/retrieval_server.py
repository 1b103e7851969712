"""Serve retrieval for tests with an echoing retriever, in this process or in one to be killed.

python tests/helpers/retrieval_server.py PORT
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from prompt_coevo.retrieval.batcher import Batcher
from prompt_coevo.retrieval.errors import RetrieverUnavailable
from prompt_coevo.retrieval.outcomes import raise_first
from prompt_coevo.retrieval.retriever import Hit, IndexInfo
from prompt_coevo.retrieval.server.server import RetrievalServer
from prompt_coevo.retrieval.server.settings import ServerSettings

PATIENT = ServerSettings(deadline_s=3600, read_timeout_s=3600)
"""Settings of a server that never times out, however busy the machine is."""

# The kernel gives such ports only on request, never to outgoing connections.
_UNLENT_PORTS = range(15_000, 32_000)
# Trainers and Hypothesis seed the module's own numbers: tests in two processes would draw the same port.
_random = random.SystemRandom()


class EchoRetriever:
    """Find passages about the query itself; a query with "boom" raises, one with "outage" is an outage.

    `batches` records the queries of every search. While `gate` is not set, searches wait.
    """

    def __init__(self, fingerprint: str = "echo-1") -> None:
        self.fingerprint = fingerprint
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.closed = False

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.batches.append(list(queries))
        self.entered.release()
        self.gate.wait()
        if any("boom" in query for query in queries):
            raise ValueError("the index broke")
        if any("outage" in query for query in queries):
            raise RetrieverUnavailable("the disk is gone")
        return [echo(query, k) for query in queries]

    def info(self) -> IndexInfo:
        return IndexInfo("echo", 1000, self.fingerprint, {"words": 7})

    def close(self) -> None:
        self.closed = True

    @property
    def asked(self) -> list[str]:
        """Return all queries except the server's warm-up."""
        return [query for batch in self.batches[1:] for query in batch]


def echo(query: str, k: int) -> list[Hit]:
    return [
        Hit(f"{query}/{rank}", f'"{query}"\nPassage {rank}.', 1 / rank, rank)
        for rank in range(1, k + 1)
    ]


@contextlib.contextmanager
def serving(
    retriever: Any, settings: ServerSettings | None = None, *, waits: bool = False
) -> Iterator[str]:
    """Serve in a thread; yield the address."""
    server = RetrievalServer(retriever, replace(settings or PATIENT, port=0), waits=waits)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server.address
    finally:
        server.stop()
        thread.join()


class ServerProcess:
    """Serve in a separate process that can be killed and restarted at the same address."""

    def __init__(self) -> None:
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-P", __file__, str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == self.address

    def kill(self) -> None:
        """Kill it as by SIGKILL: clients get no message."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def __enter__(self) -> ServerProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def free_port() -> int:
    """Return a port that is not in use; it stays free until something asks for exactly this one."""
    while True:
        port = _random.choice(_UNLENT_PORTS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def main(port: int) -> None:
    server = RetrievalServer(EchoRetriever(), replace(PATIENT, port=port))
    print(server.address, flush=True)
    server.run()


if __name__ == "__main__":
    main(int(sys.argv[1]))


class RaisingBatcher(Batcher):
    """A batcher that returns only hits."""

    async def search(self, queries: Sequence[str], k: int, **options: Any) -> list[list[Hit]]:
        """Return all hits. Raises the first error if there is one."""
        return raise_first(await self.search_each(queries, k, **options))
