"""Run Chroma's real server, which comes as machine code in the wheel `chromadb`, in its own process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from helpers.passages import passages
from helpers.retrieval_server import free_port

# The wheel's Python parts need many packages, which the server does not.
_RUN = "import sys, chromadb_rust_bindings as chroma; chroma.cli(['chroma', 'run', *sys.argv[1:]])"

COUNT = 600
"""More than two batches of a push."""
ROWS: list[dict[str, Any]] = [
    {
        **row,
        "id": f"p/{row['id']} ü",
        "year": number,
        "of": {"deep": [None, number / 3, "ü\ud800\0"]},
    }
    if number % 2
    else row
    for number, row in enumerate(passages(COUNT))
]
"""A corpus in which every second row has an id and fields that are hard to keep."""


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class ChromaProcess:
    """A server that keeps its data in a folder, and can be killed and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.address = f"http://127.0.0.1:{self._port}"
        self.collections = (
            f"{self.address}/api/v2/tenants/default_tenant/databases/default_database/collections"
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self._folder.mkdir(exist_ok=True)
        where = ("--path", str(self._folder / "data"), "--host", "127.0.0.1")
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _RUN, *where, "--port", str(self._port)],
                cwd=self._folder,
                env={**os.environ, "HOME": str(self._folder)},
                stdout=log,
                stderr=log,
            )
        while True:
            assert self._process.poll() is None, (self._folder / "log").read_text("utf-8")
            with contextlib.suppress(OSError):
                self.ask("GET", f"{self.address}/api/v2/heartbeat")
                return
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill it as by SIGKILL: clients get no message."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def ask(self, method: str, url: str, body: Any = None) -> Any:
        """Send a request of one's own and return the answer."""
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            url, content, {"content-type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request) as reply:
            return json.loads(reply.read())

    def make(
        self, name: str, vectors: Any = None, space: str = "ip", **columns: Any
    ) -> dict[str, Any]:
        """Make a collection by hand, with rows if there are vectors."""
        configured = {"name": name, "configuration": {"hnsw": {"space": space}}}
        made: dict[str, Any] = self.ask("POST", self.collections, configured)
        if vectors is not None:
            self.add(name, vectors, **columns)
        return made

    def add(self, name: str, vectors: Any, **columns: Any) -> None:
        """Store rows in a collection."""
        rows = {"ids": [f"own {n}" for n in range(len(vectors))], **columns}
        place = f"{self.collections}/{self.facts(name)['id']}/upsert"
        self.ask("POST", place, {"embeddings": vectors.tolist(), **rows})

    def names(self) -> list[str]:
        """Return the names of all collections."""
        return [one["name"] for one in self.ask("GET", self.collections)]

    def facts(self, name: str) -> dict[str, Any]:
        """Return what the server says of a collection."""
        found: dict[str, Any] = self.ask("GET", f"{self.collections}/{name}")
        return found

    def rows(self, name: str) -> dict[str, dict[str, Any]]:
        """Return all rows of a collection by their ids."""
        include = {"documents": "contents", "metadatas": "metadata", "embeddings": "vector"}
        place = f"{self.collections}/{self.facts(name)['id']}/get"
        found = self.ask("POST", place, {"include": list(include)})
        columns = zip(*(found[one] for one in include), strict=True)
        return {
            own_id: dict(zip(include.values(), row, strict=True))
            for own_id, row in zip(found["ids"], columns, strict=True)
        }

    def __enter__(self) -> ChromaProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
