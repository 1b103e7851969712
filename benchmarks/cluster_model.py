"""Model what searches cost a cluster: rollout slots, lengths, reflection calls, updates.

    python benchmarks/cluster_model.py [--json FILE]

Not a measurement. Responses are log-normal (median 2 000 tokens, cut at 12 000), a token takes 12 ms
in an idle engine and 25 ms in a full one, a reflection call 20 to 60 s, eight at once. The waves are
those of a real search with the preset p2o: 240 hard questions of 24 kinds, a rule-based policy and
teacher, the sizes of all batches one after the other. INSPO's verification is as its settings say.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from search_backends import RulePolicy, reflect

from prompt_coevo import Coevolution, Settings
from prompt_coevo.algorithms.p2o.search import Search
from prompt_coevo.candidates.searches import SearchRequest
from prompt_coevo.types import Rollout, RolloutRequest

Lengths = NDArray[np.float64]

MEDIAN, LONGEST, SPREAD = 2_000, 12_000, math.log(6) / 2.326
IDLE_S, FULL_S = 0.012, 0.025
CALL_S, CALLS_AT_ONCE = (20.0, 60.0), 8
DRAWS: Final = 12


@dataclass(frozen=True)
class Cluster:
    """A cluster with `slots` responses at once, `batch` rollouts and `update` seconds a step, `steps` an
    epoch."""

    gpus: int
    slots: int
    batch: int
    update: float
    steps: int


def clusters() -> list[Cluster]:
    """Return clusters with 64 slots a GPU, and batches that grow more slowly than the cluster."""
    return [
        Cluster(gpus, 64 * gpus, round(768 * (gpus / 8) ** 0.8), 60.0 * (gpus / 8) ** 0.2, 40)
        for gpus in (8, 64, 256, 1024)
    ]


def lengths(count: int, rng: np.random.Generator) -> Lengths:
    drawn: Lengths = np.minimum(MEDIAN * np.exp(SPREAD * rng.standard_normal(count)), LONGEST)
    return drawn


def ends(work: Lengths, slots: int) -> Lengths:
    """Return when each response ends; free slots take them in order."""
    busy = min(len(work), slots) / slots
    per_token = IDLE_S + (FULL_S - IDLE_S) * busy
    free = [0.0] * min(slots, len(work))
    done = np.zeros(len(work))
    for number, length in enumerate(work):
        done[number] = heapq.heappop(free) + length * per_token
        heapq.heappush(free, done[number])
    return done


def reflection(count: int, rng: np.random.Generator) -> float:
    """Return the time until `count` calls are answered."""
    free = [0.0] * min(CALLS_AT_ONCE, count)
    for _ in range(count):
        heapq.heappush(free, heapq.heappop(free) + rng.uniform(*CALL_S))
    return max(free)


Event = tuple[str, int]
"""The kind of a batch, rollouts or calls, and its size."""


def trace_of_waves(**p2o: Any) -> list[Event]:
    """Record what one search of the preset, with these settings changed, waits for in sequence."""
    events: list[Event] = []

    class Traced(RulePolicy):
        def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
            events.append(("rollouts", len(requests)))
            return super().rollout(requests)

    def answer(prompt: str) -> str:
        if events[-1][0] == "calls":
            events[-1] = ("calls", events[-1][1] + 1)
        else:
            events.append(("calls", 1))
        return reflect(prompt)

    settings = Settings(preset="p2o", p2o=p2o, reflection={"function": answer})
    engine = Coevolution.from_settings(settings)
    ids = tuple(f"q{number}" for number in range(240))
    Search(SearchRequest(0, ids, Traced()), engine.context).run()
    return events


def seconds_of(trace: Sequence[Event], cluster: Cluster, rng: np.random.Generator) -> float:
    return sum(
        reflection(size, rng)
        if kind == "calls"
        else float(ends(lengths(size, rng), cluster.slots).max())
        for kind, size in trace
    )


def modelled(cluster: Cluster, trace: Sequence[Event]) -> dict[str, Any]:
    """Return the overheads of a search in waves and of verifications, in parts of an epoch."""
    rng = np.random.default_rng(0)
    generation = [
        float(ends(lengths(cluster.batch, rng), cluster.slots).max()) for _ in range(DRAWS)
    ]
    step = float(np.mean(generation)) + cluster.update
    search = float(np.mean([seconds_of(trace, cluster, rng) for _ in range(DRAWS)]))
    asynchronous = max(float(np.mean(generation)), cluster.update) * cluster.steps
    rollouts = sum(size for kind, size in trace if kind == "rollouts")
    mean_s = MEDIAN * math.exp(SPREAD**2 / 2) * IDLE_S
    return {
        "gpus": cluster.gpus,
        "step_s": step,
        "waves": search / (step * cluster.steps),
        "waves_asynchronous": search / asynchronous,
        "waves_slots_busy": rollouts * mean_s / (cluster.slots * search),
        "inspo_blocking": inspo(cluster, step, rng, overlapped=False),
        "inspo_overlapped": inspo(cluster, step, rng, overlapped=True),
    }


def inspo(cluster: Cluster, step: float, rng: np.random.Generator, *, overlapped: bool) -> float:
    """Return an evolution's share: every `evolve_every` steps, two rounds of a call and a verification."""
    settings = Settings(preset="inspo").inspo
    rollouts = (settings.candidates_per_call + 1) * settings.verify_size
    spent = []
    for _ in range(DRAWS):
        verified = float(ends(lengths(rollouts, rng), cluster.slots).max())
        asked = 0.0 if overlapped else reflection(1, rng)
        spent.append(2 * (asked + verified))
    return float(np.mean(spent)) / (settings.evolve_every * step)


def verification_share(rounds: int) -> float:
    """Return verification's share of an epoch's training rollouts, as INSPO's section 4 counts them."""
    settings = Settings(preset="inspo").inspo
    evolutions = settings.evolve_until / settings.evolve_every
    verifying = settings.candidates_per_call * settings.verify_size * evolutions * rounds
    return verifying / (169_615 * 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    trace = trace_of_waves()
    rows = [modelled(cluster, trace) for cluster in clusters()]
    batches = [size for kind, size in trace if kind == "rollouts"]
    result = {
        "trace": {
            "batches": len(batches),
            "rollouts": sum(batches),
            "small_batches": sum(size < 50 for size in batches),
            "rounds_of_calls": sum(kind == "calls" for kind, _ in trace),
        },
        "clusters": rows,
        "inspo_verification_share": {
            "one round": verification_share(1),
            "five rounds": verification_share(5),
        },
    }
    print(json.dumps(result["trace"]), json.dumps(result["inspo_verification_share"]))
    names = list(rows[0])
    print("| " + " | ".join(names) + " |\n" + "|---" * len(names) + "|")
    for row in rows:
        print("| " + " | ".join(_cell(name, row[name]) for name in names) + " |")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


def _cell(name: str, value: float) -> str:
    return f"{value:.0f}" if name in ("gpus", "step_s") else f"{100 * value:.1f} %"


if __name__ == "__main__":
    main()
