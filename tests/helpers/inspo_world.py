"""Run INSPO on the questions of `trl_world`: small settings, a teacher, and a run's decisions."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from helpers.trl_world import TASKS
from prompt_coevo import hookimpl
from prompt_coevo.engine.state import plugin_states
from prompt_coevo.types import Candidate, Group

FIRST = "note please"
INSPO = {
    "instruction": FIRST,
    "population_size": 4,
    "prune_every": 2,
    "evolve_every": 4,
    "evolve_until": 1000,
    "candidates_per_call": 3,
    "verify_size": 3,
}
QUESTIONS = [task.question for task in TASKS]


def teach(prompt: str) -> str:
    """Add three words to the parent that the prompt shows, as a function of the parent alone."""
    parent = re.search(r"<ins_0>\s*(.*?)\s*</ins_0>", prompt, re.DOTALL)
    assert parent is not None
    words = ("always", "now", "carefully")
    return "\n".join(f"<ins_{n}>{parent[1]} {w}</ins_{n}>" for n, w in enumerate(words, 1))


def settings(**changes: Any) -> dict[str, Any]:
    """Return small settings, with these sections merged in."""
    return {
        "algorithms": ("inspo",),
        "question_id_column": "id",
        "reflection": {"function": teach},
        **changes,
        "inspo": {**INSPO, **changes.get("inspo", {})},
    }


@dataclass(eq=False)
class Recorder:
    """A third-party plugin that records the rounds, and the population at each."""

    rounds: list[Sequence[Group]] = field(default_factory=list)
    populations: list[list[str]] = field(default_factory=list)
    _population: list[str] = field(default_factory=list)

    @hookimpl
    def coevo_after_population_changed(self, population: Sequence[Candidate]) -> None:
        self._population = [instruction.text for instruction in population]

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        self.rounds.append(groups)
        self.populations.append(self._population)


class BestSoFar(TrainerCallback):
    """Compute the argmax over the windows by hand after every step; added after our callback."""

    def __init__(self, callback: Any) -> None:
        self.texts: list[str] = []
        self._callback = callback

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.texts.append(argmax(population(self._callback)))


def population(callback: Any) -> list[dict[str, Any]]:
    """Return the members in the state, oldest first."""
    members: list[dict[str, Any]] = inspo_state(callback)["population"]
    return members


def inspo_state(callback: Any) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(json.dumps(callback.engine.state_dict()))
    return plugin_states(state)["inspo"]  # type: ignore[no-any-return]


def argmax(members: list[dict[str, Any]]) -> str:
    """Return `I* = argmax w_j` over the members with a window entry, the older one on a tie."""
    seen = [member for member in members if member["window"]]
    best = max(seen, key=lambda member: sum(member["window"]) / len(member["window"]))
    return str(best["instruction"]["text"])


def events(trainer: Any, *names: str) -> list[dict[str, Any]]:
    """Return the journal's events, optionally only those with these names."""
    path = Path(trainer.args.output_dir) / "coevo" / "events.jsonl"
    written = [json.loads(line) for line in path.read_text().splitlines()]
    return [event for event in written if not names or event["event"] in names]
