"""Answer every request badly, in the way that the request's path names.

It runs as a separate process, so that its threads, sockets and memory are not the caller's. Stops with
its standard input.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

_PAUSE_S = 0.02
_MB = 1_000_000


@dataclass(frozen=True)
class BadEndpoint:
    """A running bad server."""

    port: int

    def base(self, kind: str, size: int = 0) -> str:
        """Return the address of a server that answers in this way; `kind` is the name of a method below."""
        return f"http://127.0.0.1:{self.port}/{kind}/{size}/v1"

    def asked(self, kind: str) -> int:
        """Return how many requests for it have come so far."""
        with urlopen(f"http://127.0.0.1:{self.port}/?kind={kind}") as answer:
            return int(answer.read())


@contextmanager
def bad_endpoint() -> Iterator[BadEndpoint]:
    command = [sys.executable, "-P", __file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield BadEndpoint(int(process.stdout.readline()))
        finally:
            process.stdin.close()


def completion(size: int = 0, text: str = "") -> bytes:
    """Build an answer with this text, padded to `size` bytes; for OpenAI's and Anthropic's clients."""
    whole = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "test",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
    }
    shortest = json.dumps(whole)
    return (shortest + " " * (size - len(shortest))).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked: ClassVar[dict[str, int]] = {}
    lock = threading.Lock()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        _, kind, size, *_ = urlsplit(self.path).path.split("/")
        with self.lock:
            self.asked[kind] = self.asked.get(kind, 0) + 1
        getattr(self, f"_{kind}")(int(size))

    def do_GET(self) -> None:
        kind = parse_qs(urlsplit(self.path).query)["kind"][0]
        self._answer(str(self.asked.get(kind, 0)).encode())

    def _answer(self, body: bytes, **headers: str) -> None:
        self._start(**headers, Content_Length=str(len(body)))
        self.wfile.write(body)

    def _start(self, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def _stream(self, _: int) -> None:
        """Stream, as if the client had asked for it."""
        event = b'data: {"choices": [{"index": 0, "delta": {"content": "x"}}]}\n\n'
        self._start(Content_Type="text/event-stream", Transfer_Encoding="chunked")
        while True:
            self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")

    def _sized(self, size: int) -> None:
        self._answer(completion(size))

    def _huge(self, _: int) -> None:
        self._start(Content_Length=str(100 * _MB))
        self.wfile.write(completion()[:-1])
        for _ in range(100):
            self.wfile.write(b" " * _MB)

    def _packed(self, size: int) -> None:
        self._answer(gzip.compress(completion(size)), Content_Encoding="gzip")

    def _unknown(self, _: int) -> None:
        self._answer(b"?", Content_Encoding="br")

    def _endless(self, _: int) -> None:
        self._start(Transfer_Encoding="chunked")
        while True:
            self.wfile.write(b"2000\r\n" + b" " * 0x2000 + b"\r\n")

    def _drip(self, _: int) -> None:
        self._start(Transfer_Encoding="chunked")
        while True:
            self.wfile.write(b"1\r\n \r\n")
            time.sleep(_PAUSE_S)

    def _head(self, _: int) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while True:
            self.wfile.write(b"x")
            time.sleep(_PAUSE_S)

    def _silent(self, _: int) -> None:
        self.rfile.read(1)  # until the caller goes

    def _early(self, _: int) -> None:
        self._start(Content_Length="1000")
        self.wfile.write(b'{"choices": [')
        self.close_connection = True

    def _loop(self, _: int) -> None:
        self._start(307, Location=self.path, Content_Length="0")

    def _fat(self, _: int) -> None:
        self._start(307, Location=self.path, Content_Length=str(100 * _MB))
        for _ in range(100):
            self.wfile.write(b" " * _MB)

    def _away(self, _: int) -> None:
        """Redirect to this machine's other name, which is another origin."""
        where = f"http://localhost:{self.server.server_port}/keys/0/v1"  # type: ignore[attr-defined]
        self._start(307, Location=where, Content_Length="0")

    def _keys(self, _: int) -> None:
        """Answer with the request's headers."""
        self._answer(completion(text=str(self.headers)))

    def log_message(self, *_: object) -> None: ...


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Ignore callers that left: these answers are meant to make them leave."""


if __name__ == "__main__":
    server = _Quiet(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()
