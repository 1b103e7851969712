"""Measure how much of a reflection model's varying latency overlapped reflection hides.

    python benchmarks/overlap.py [--steps trained|slept] [--json FILE]

INSPO under the real GRPOTrainer; or, with `slept`, around the real engine with steps that sleep for 0.15 s,
as a trainer whose GPU is at work. The reflection model is a local server that speaks the OpenAI protocol,
called through the real litellm. Its latencies are log-normal, the same multiples of their mean in every
cell of the table, from a seventh of it to three times it. A cell is `inspo.overlap_steps` and the ratio of
the mean latency to the time of that many steps, by the steps of a run without evolution just before.
Compared are `overlapped`, `blocking` with the same replies, and no evolution at all. There is no
verification, which takes the same time with both, and a reply shuffles the words of the parent, so prompts
keep their length.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final, TypeAlias

from slow_server import Server, serving

Host: TypeAlias = Callable[[str, Mapping[str, Any], int], list[float]]
"""Runs this many steps with these settings in a folder, and returns the time of each."""

INSTRUCTION: Final = "note remember dax means reverse . wug means rotate ."
OVERLAPS: Final = (1, 4, 16)
RATIOS: Final = (0.25, 1.0, 4.0)
REPLIES: Final = 8
SPREAD: Final = 1.0
"""The standard deviation of the logarithm of a latency."""


def shape() -> list[float]:
    """Return a run's latencies in means: the midpoints of equal parts of the distribution, in any order."""
    places = [(number + 0.5) / REPLIES for number in range(REPLIES)]
    latencies = [math.exp(SPREAD * NormalDist().inv_cdf(place)) for place in places]
    random.Random(0).shuffle(latencies)
    return [latency / statistics.mean(latencies) for latency in latencies]


@dataclass(frozen=True)
class Trained:
    """The timing of one run: seconds by step, and by reply its latency and how long a step waited."""

    seconds: Sequence[float]
    took: Sequence[float]
    waited: Sequence[float]

    @property
    def wall(self) -> float:
        return sum(self.seconds)


def train(
    host: Host,
    server: Server,
    overlap: int,
    latencies: Sequence[float],
    reflection: Mapping[str, Any],
) -> Trained:
    """Run with this many replies; `reflection` says how they are waited for, or that there are none."""
    every = overlap + 1
    server.latencies, server.replies = list(latencies), 0
    settings: dict[str, Any] = {
        "algorithms": "inspo",
        "reflection": {"model": "openai/slow", "api_base": server.address, "api_key": "none"},
        "preflight": {"reflection": "off"},
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
    # The last step of training uses no reply.
    steps = len(latencies) * every + overlap + 1
    with tempfile.TemporaryDirectory() as folder:
        seconds = host(folder, settings, steps)
        lines = (Path(folder) / "coevo" / "events.jsonl").read_text().splitlines()
    events = [event for event in map(json.loads, lines) if event["event"] == "reflection_awaited"]
    wanted = 0 if reflection.get("evolution") == "off" else len(latencies)
    assert server.replies == wanted, f"{server.replies} replies, not {wanted}"
    return Trained(
        seconds,
        [event["took_s"] for event in events],
        [event["waited_s"] for event in events],
    )


def rows(host: Host, server: Server, overlap: int) -> list[dict[str, Any]]:
    """Measure the cells of one overlap. The runs without evolution come before and after the others."""
    off = {"evolution": "off"}
    draws = shape()
    before = train(host, server, overlap, draws, off)
    step = statistics.median(before.seconds)
    cells = []
    for ratio in RATIOS:
        latencies = [ratio * overlap * step * draw for draw in draws]
        overlapped = {"reflection": "overlapped", "overlap_steps": overlap}
        hidden = train(host, server, overlap, latencies, overlapped)
        blocking = train(host, server, overlap, latencies, {"reflection": "blocking"})
        cells.append((ratio, latencies, hidden, blocking))
    after = train(host, server, overlap, draws, off)
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
    """Return the share that training's steps would hide if all of them took the same time."""
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
    parser.add_argument("--steps", choices=("trained", "slept"), default="trained")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    module = {"trained": "timed_trainer", "slept": "timed_sleeps"}[options.steps]
    host: Host = import_module(module).seconds
    with serving() as server:
        # The first call imports litellm, which must not count as latency.
        train(host, server, 1, [0.0], {"reflection": "blocking"})
        result: dict[str, Any] = {"steps": options.steps, "draws": shape(), "cells": []}
        for overlap in OVERLAPS:
            result["cells"] += rows(host, server, overlap)
            if options.json:
                options.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(table(result["cells"]))


if __name__ == "__main__":
    main()
