"""Serve a soak's reflection model: a separate process that records its requests and their times.

    python benchmarks/soak/teacher.py LOG [--moody]

prints its address. With `--moody` equal prompts get other answers each time, so that a lost and repeated
call gives other decisions.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import random
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from prompt_coevo.demo.digits import SKILL_NAMES
from worlds.pairs.world import World

_MEANING = World(0).meaning
_WANTED = re.compile(r"[Ww]rite (\d+) ")


class Teacher:
    """Answer right about two of three words, in varying time."""

    def __init__(self, log: Path, *, moody: bool) -> None:
        self._log = log.open("a", encoding="utf-8", buffering=1)
        self._moody = moody
        self._lock = threading.Lock()
        self._numbers = itertools.count()

    def reply(self, prompt: str) -> str:
        name = hashlib.sha256(prompt.encode()).hexdigest()[:16]
        with self._lock:
            number = next(self._numbers)
            self._log.write(json.dumps({"asked": number, "prompt": name}) + "\n")
        rng = random.Random(f"{prompt} {number}" if self._moody else prompt)
        time.sleep(rng.choice((0.0, 0.01, 0.05, 0.15)))
        known = [word for word in _MEANING if word in prompt]
        rng.shuffle(known)
        clauses = [
            f"{word} means {_MEANING[word] if rng.random() < 0.67 else rng.choice(SKILL_NAMES)} ."
            for word in known[:4]
        ]
        if "<current_template>" in prompt:
            text = f"<template>{' '.join(clauses)}</template>"
        else:
            count = int((_WANTED.findall(prompt) or ["1"])[0])
            text = "\n".join(
                f"<ins_{n}>think well . {' '.join(clauses[: n % 4])}</ins_{n}>"
                for n in range(1, count + 1)
            )
        with self._lock:
            self._log.write(json.dumps({"answered": number}) + "\n")
        return text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("log", type=Path)
    parser.add_argument("--moody", action="store_true")
    options = parser.parse_args()
    teacher = Teacher(options.log, moody=options.moody)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            content = teacher.reply(body["messages"][0]["content"])
            choice = {
                "index": 0,
                "message": {"role": "assistant", "content": content},
                "finish_reason": "stop",
            }
            reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "teacher"}
            usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
            data = json.dumps({**reply, "choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None: ...

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Ignore clients that were killed, which is intended."""

    server = Quiet(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
