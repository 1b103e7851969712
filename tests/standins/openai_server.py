"""Stands in for a remote LLM: a local HTTP server that speaks the OpenAI chat protocol.

The client side is the real litellm. A script decides each answer: a text, a status code, or a callable
from the request's body to either.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = str | int | dict[str, Any] | Callable[[dict[str, Any]], Any]


class Server:
    """Answers in the order of `answers`; the last one repeats. `requests` keeps the bodies."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = list(answers)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.base = ""
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

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(size))
            answer = state.next_answer(body, self.headers.get("Authorization"))
            status, payload = _response(answer, body.get("model", "test"))
            data = json.dumps(payload).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.base = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


def _response(answer: Any, model: str) -> tuple[int, dict[str, Any]]:
    if isinstance(answer, int):
        return answer, {"error": {"message": f"status {answer}", "type": "test", "code": answer}}
    choice = {"content": answer} if isinstance(answer, str) else answer
    return 200, {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": choice["content"]},
                "finish_reason": choice.get("finish_reason", "stop"),
            }
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }
