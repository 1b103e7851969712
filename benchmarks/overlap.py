"""How much of a reflection model's time overlapped reflection hides, where its latency varies.

    python benchmarks/overlap.py [--json FILE]

INSPO under the real GRPOTrainer. The reflection model is a local server that speaks the OpenAI protocol,
asked through the real litellm; it takes log-normal times, the same draws in every cell of the table, from
a fraction of their mean to several times it. A cell is `inspo.overlap_steps` and the ratio of the mean
latency to the time of so many steps, by the steps of a run without evolution just before. Compared are
`overlapped`, `blocking` with the same replies, and no evolution at all. There is no verification, which
takes the same time with both, and a reply shuffles the words of the parent, so prompts keep their length.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from tiny_trainer import build
from transformers import TrainerCallback

from prompt_coevo.adapters.trl import attach

QUESTIONS, GROUP = 4, 6
INSTRUCTION: Final = "note remember dax means reverse . wug means rotate ."
OVERLAPS: Final = (1, 4, 16)
RATIOS: Final = (0.25, 1.0, 4.0)
REPLIES: Final = 10
SPREAD: Final = 1.0
"""The standard deviation of the logarithm of a latency."""
PAUSE: Final = 2
"""Steps from the use of a reply to the next request."""

_PARENT: Final = re.compile(r"<ins_0>(.*?)</ins_0>", re.DOTALL)
_WANTED: Final = re.compile(r"write (\d+) improved instructions")


def shape() -> list[float]:
    """The latencies of a run, in means."""
    drawn = np.random.default_rng(0).lognormal(0.0, SPREAD, REPLIES)
    scaled: list[float] = (drawn / drawn.mean()).tolist()
    return scaled


@dataclass
class Server:
    """The reflection model: its address, and how long each of its next replies takes."""

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
    """A server that takes its time."""
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


@dataclass(frozen=True)
class Trained:
    """What one run took: seconds by step, and by reply how long it took and how long a step waited."""

    seconds: Sequence[float]
    took: Sequence[float]
    waited: Sequence[float]

    @property
    def wall(self) -> float:
        return sum(self.seconds)


def train(
    server: Server, overlap: int, latencies: Sequence[float], reflection: Mapping[str, Any]
) -> Trained:
    """A run with so many replies; `reflection` says how they are waited for, or that there are none."""
    every = overlap + PAUSE
    server.latencies, server.replies = list(latencies), 0
    settings: dict[str, Any] = {
        "algorithms": "inspo",
        "reflection": {"model": "openai/slow", "api_base": server.address, "api_key": "none"},
        "inspo": {
            "instruction": INSTRUCTION,
            "paraphrase": False,
            "evolve_every": every,
            "evolve_until": len(latencies) * every + 1,
            "rounds": 1,
            "verify": "off",
            **reflection,
        },
    }
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = build(
            folder,
            questions=512,
            rollouts=QUESTIONS * GROUP,
            group=GROUP,
            steps=len(latencies) * every + overlap,
            learning_rate=1e-7,  # lengths and rewards stay the same, so that steps can be compared
            logging_steps=50,
        )
        attach(trainer, settings)
        trainer.add_callback(clock)
        trainer.train()
        lines = (Path(folder) / "coevo" / "events.jsonl").read_text().splitlines()
    events = [event for event in map(json.loads, lines) if event["event"] == "reflection_awaited"]
    wanted = 0 if reflection.get("evolution") == "off" else len(latencies)
    assert server.replies == wanted, f"{server.replies} replies, not {wanted}"
    return Trained(
        clock.seconds,
        [event["took_s"] for event in events],
        [event["waited_s"] for event in events],
    )


def rows(server: Server, overlap: int) -> list[dict[str, Any]]:
    """The cells of one overlap. The runs without evolution are before and after the others."""
    off = {"evolution": "off"}
    draws = shape()
    before = train(server, overlap, draws, off)
    step = statistics.median(before.seconds)
    cells = []
    for ratio in RATIOS:
        latencies = [ratio * overlap * step * draw for draw in draws]
        overlapped = {"reflection": "overlapped", "overlap_steps": overlap}
        hidden = train(server, overlap, latencies, overlapped)
        blocking = train(server, overlap, latencies, {"reflection": "blocking"})
        cells.append((ratio, latencies, hidden, blocking))
    after = train(server, overlap, draws, off)
    plain = (before.wall + after.wall) / 2
    return [
        {
            "overlap_steps": overlap,
            "ratio": ratio,
            "step_s": step,
            "latencies_s": latencies,
            "took_s": hidden.took,
            "waited_s": hidden.waited,
            "hidden": 1 - sum(hidden.waited) / sum(hidden.took),
            "hidden_beforehand": _hidden_beforehand(latencies, overlap * step),
            "hidden_of_the_worst_reply": min(
                1 - waited / took for waited, took in zip(hidden.waited, hidden.took, strict=True)
            ),
            "wall_s": hidden.wall,
            "wall_blocking_s": blocking.wall,
            "wall_without_s": plain,
            "walls_without_s": [before.wall, after.wall],
            "median_step_s": statistics.median(hidden.seconds),
        }
        for ratio, latencies, hidden, blocking in cells
    ]


def _hidden_beforehand(latencies: Sequence[float], steps_s: float) -> float:
    """The share that training's steps would hide if all of them took the same time."""
    return sum(min(latency, steps_s) for latency in latencies) / sum(latencies)


def table(cells: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| overlap_steps | latency / steps | latencies, s | hidden | by arithmetic | worst reply | waited "
        "| wall | blocking | no evolution |",
        "|" + "---|" * 10,
    ]
    for one in cells:
        latencies = one["latencies_s"]
        lines.append(
            f"| {one['overlap_steps']} | {one['ratio']} | {min(latencies):.2f} to {max(latencies):.2f} "
            f"| {100 * one['hidden']:.0f} % | {100 * one['hidden_beforehand']:.0f} % "
            f"| {100 * one['hidden_of_the_worst_reply']:.0f} % "
            f"| {sum(one['waited_s']):.1f} s of {sum(one['took_s']):.1f} s | {one['wall_s']:.1f} s "
            f"| {one['wall_blocking_s']:.1f} s | {one['wall_without_s']:.1f} s |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with serving() as server:
        # litellm is imported at the first call, which is to be nobody's latency.
        train(server, 1, [0.0], {"reflection": "blocking"})
        cells = [row for overlap in OVERLAPS for row in rows(server, overlap)]
    print(table(cells))
    if options.json:
        result = {"draws": shape(), "cells": cells, "load": os.getloadavg(), "cpus": os.cpu_count()}
        options.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
