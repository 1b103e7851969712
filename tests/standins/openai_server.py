"""Stand in for a remote LLM: a local HTTP server that speaks the OpenAI chat protocol.

The client side is the real litellm. A script decides each answer: a text, a status code, a dict with
`content` and `finish_reason`, one of the misbehaviours below, or a callable from the request's body to
any of these.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Raw:
    """A body sent unchanged, such as a proxy's HTML page."""

    body: str
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Slow:
    """An answer that takes this many seconds."""

    seconds: float
    answer: Any = "too late"


@dataclass(frozen=True)
class Trickle:
    """Blanks, one every `pause` seconds, without end: no single read takes long."""

    pause: float = 0.05


@dataclass(frozen=True)
class Dropped:
    """Close the connection without an answer."""


Answer = (
    str | int | dict[str, Any] | Raw | Slow | Trickle | Dropped | Callable[[dict[str, Any]], Any]
)


class Server:
    """Answer in the order of `answers`; the last one repeats. `requests` keeps the bodies."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = list(answers)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.base = ""
        self.stopping = threading.Event()
        self._lock = threading.Lock()

    def next_answer(self, body: dict[str, Any], key: str | None) -> Any:
        with self._lock:
            self.requests.append(body)
            self.keys.append(key)
            answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        return answer(body) if callable(answer) else answer


@contextmanager
def openai_server(*answers: Answer) -> Iterator[Server]:
    """Run a server on a free local port."""
    state = Server(answers)

    class Handler(_Handler):
        script = state

    server = _QuietServer(("127.0.0.1", 0), Handler)
    state.base = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.stopping.set()
        server.shutdown()
        server.server_close()


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """Ignore clients that gave up: some tests make them."""


class _Handler(BaseHTTPRequestHandler):
    script: Server

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(size))
        answer = self.script.next_answer(body, self.headers.get("Authorization"))
        if isinstance(answer, Slow):
            self.script.stopping.wait(answer.seconds)
            answer = answer.answer
        if isinstance(answer, Dropped):
            self.close_connection = True
        elif isinstance(answer, Trickle):
            self._trickle(answer.pause)
        else:
            self._send(answer if isinstance(answer, Raw) else _response(answer, body))

    def _send(self, raw: Raw) -> None:
        data = raw.body.encode("utf-8")
        self._start(raw.status, {"Content-Type": raw.content_type, **raw.headers}, len(data))
        self.wfile.write(data)

    def _trickle(self, pause: float) -> None:
        self._start(200, {"Content-Type": "application/json"}, 1_000_000)
        while not self.script.stopping.wait(pause):
            self.wfile.write(b" ")

    def _start(self, status: int, headers: dict[str, str], size: int) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(size)}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


def _response(answer: Any, body: dict[str, Any]) -> Raw:
    if isinstance(answer, int):
        error = {"message": f"status {answer}", "type": "test", "code": answer}
        return Raw(json.dumps({"error": error}), answer)
    choice = {"content": answer} if isinstance(answer, str) else answer
    payload = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body.get("model", "test"),
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": choice["content"]},
                "finish_reason": choice.get("finish_reason", "stop"),
            }
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }
    return Raw(json.dumps(payload))
