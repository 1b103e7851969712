"""Run a scripted retrieval server, for answers that a real one seldom gives."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from helpers.retrieval_server import echo
from prompt_coevo.retrieval.wire import write_reply


@dataclass(frozen=True)
class Reply:
    """A body with its status; status 0 closes the connection instead."""

    body: bytes = b"{}"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Script = Callable[[str, dict[str, Any] | None], Reply]


@dataclass
class Scripted:
    """Record the bodies of all POSTs in `requests`, in order."""

    address: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)

    @property
    def queries(self) -> list[list[str]]:
        return [request["queries"] for request in self.requests]


def echoed(request: dict[str, Any], **headers: str) -> Reply:
    """Return a healthy server's reply."""
    found = [echo(query, request["topk"]) for query in request["queries"]]
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(write_reply(found, request["return_scores"]), headers=named)


@contextlib.contextmanager
def scripted(script: Script) -> Iterator[Scripted]:
    """Run it; `script` gets the path and the body, None for GET."""
    state = Scripted()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                state.requests.append(body)
            self._answer(body)

        def _answer(self, body: dict[str, Any] | None) -> None:
            reply = script(self.path, body)
            if reply.status == 0:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in {**reply.headers, "content-length": str(len(reply.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
