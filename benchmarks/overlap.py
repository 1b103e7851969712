"""How much of a slow reflection model's time overlapped reflection hides.

    python benchmarks/overlap.py [--json FILE]

One run of INSPO under the real GRPOTrainer with `inspo.reflection = "overlapped"`. The reflection model
is a local server that speaks the OpenAI protocol and takes 20 seconds (it stands in for a remote model),
asked through the real litellm. Compared are the durations of the steps while a reply is under way with
those of the other steps of the same run; the steps at which a reply is used, with their verification
rollouts, are counted apart.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from tiny_trainer import build
from transformers import TrainerCallback

from prompt_coevo.adapters.trl import attach
from prompt_coevo.demo.arms import first_instruction
from prompt_coevo.demo.instruction_teacher import InstructionTeacher
from prompt_coevo.demo.teacher import Teacher
from prompt_coevo.demo.world import World

REPLY_S = 20.0
QUESTIONS, GROUP = 64, 6
EVERY, OVERLAP, STEPS = 80, 60, 250


@contextmanager
def slow_server() -> Iterator[str]:
    """The demo's teacher behind a server that takes its time."""
    teacher = InstructionTeacher(Teacher(max_clauses=10))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            time.sleep(REPLY_S)
            message = {"role": "assistant", "content": teacher(body["messages"][0]["content"])}
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
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()


class Clock(TrainerCallback):
    """Wall seconds of every step; stands after our callback, so that its work counts."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._last: float | None = None

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._last = self._last or time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        now = time.perf_counter()
        assert self._last is not None
        self.seconds.append(now - self._last)
        self._last = now


def train(folder: str, address: str) -> Clock:
    trainer = build(
        folder,
        questions=512,
        rollouts=QUESTIONS * GROUP,
        group=GROUP,
        steps=STEPS,
        learning_rate=1e-7,  # lengths and rewards stay the same, so that steps can be compared
        logging_steps=50,
    )
    settings: dict[str, Any] = {
        "preset": "demo-inspo",
        "reflection": {"model": "openai/slow", "api_base": address, "api_key": "none"},
        "inspo": {
            "instruction": first_instruction(World()),
            "paraphrase": False,
            "reflection": "overlapped",
            "overlap_steps": OVERLAP,
            "evolve_every": EVERY,
            "evolve_until": STEPS - OVERLAP,  # no request that is still open at the end
            "rounds": 1,
        },
    }
    attach(trainer, settings)
    clock = Clock()
    trainer.add_callback(clock)
    trainer.train()
    return clock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, slow_server() as address:
        clock = train(folder, address)
        lines = (Path(folder) / "coevo" / "events.jsonl").read_text().splitlines()
    awaited = [e for e in map(json.loads, lines) if e["event"] == "reflection_awaited"]
    requests = [step for step in range(EVERY, STEPS, EVERY) if step + OVERLAP <= STEPS]
    # Step n is at index n - 1. A reply is under way in the steps after the request.
    during, used, others, passed = [], [], [], 0.0
    for step, seconds in enumerate(clock.seconds, start=1):
        open_request = next((r for r in requests if r < step <= r + OVERLAP), None)
        passed = 0.0 if open_request is None else passed + seconds
        if open_request is not None and step == open_request + OVERLAP:
            used.append(seconds)
        elif open_request is not None and passed < REPLY_S:
            during.append(seconds)
        elif step > 5:  # the first ones warm up
            others.append(seconds)
    took = sum(event["took_s"] for event in awaited)
    waited = sum(event["waited_s"] for event in awaited)
    result = {
        "reply_s": REPLY_S,
        "replies": len(awaited),
        "steps_during": len(during),
        "steps_otherwise": len(others),
        "median_step_during_ms": 1e3 * statistics.median(during),
        "median_step_otherwise_ms": 1e3 * statistics.median(others),
        "ratio": statistics.median(during) / statistics.median(others),
        "median_step_with_verification_ms": 1e3 * statistics.median(used),
        "reflection_s": took,
        "waited_s": waited,
        "hidden_percent": 100 * (1 - waited / took),
    }
    for name, value in result.items():
        print(f"{name:34} {value:10.3f}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
