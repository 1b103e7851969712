"""Serve a reflection model with chosen latencies, on a local server that speaks the OpenAI protocol."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

_PARENT: Final = re.compile(r"<ins_0>(.*?)</ins_0>", re.DOTALL)
_WANTED: Final = re.compile(r"write (\d+) improved instructions")


@dataclass
class Server:
    """The reflection model: its address, and the latency of each of its next replies."""

    address: str = ""
    latencies: list[float] = field(default_factory=list)
    replies: int = 0

    def reply(self, prompt: str) -> str:
        parent, wanted = _PARENT.search(prompt), _WANTED.search(prompt)
        assert parent
        assert wanted
        time.sleep(self.latencies[self.replies])
        self.replies += 1
        rng = random.Random(prompt)
        words = parent[1].split()
        texts = [" ".join(rng.sample(words, len(words))) for _ in range(int(wanted[1]))]
        return "\n".join(f"<ins_{n}>{text}</ins_{n}>" for n, text in enumerate(texts, 1))


@contextmanager
def serving() -> Iterator[Server]:
    """Run the slow server."""
    model = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            content = model.reply(body["messages"][0]["content"])
            message = {"role": "assistant", "content": content}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "slow"}
            data = json.dumps({**reply, "choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    model.address = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield model
    finally:
        server.shutdown()
