"""What the OpenRLHF tests share: settings in small, a teacher, and how to read what a run left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from helpers.openrlhf_run import Result
from helpers.verl_world import FIRST, MANY, TOKENIZER, teach, tokens

__all__ = ["FIRST", "INSPO", "MANY", "P2O", "TOKENIZER", "events", "reflection", "teach", "tokens"]

# Above every reward, tau makes all questions hard, so that every epoch ends with a search.
P2O = (
    *("--coevo.p2o.tau", "2.0", "--coevo.p2o.dev_size", "8", "--coevo.p2o.minibatch_size", "3"),
    *("--coevo.p2o.search_budget", "200", "--coevo.p2o.minibatch_temperature", "0.7"),
)
INSPO = (
    *("--coevo.inspo.instruction", FIRST, "--coevo.inspo.population_size", "3"),
    *("--coevo.inspo.prune_every", "2", "--coevo.inspo.evolve_every", "3"),
    *("--coevo.inspo.verify_size", "3", "--coevo.inspo.candidates_per_call", "2"),
    "--coevo.inspo.rounds=1",
)


def reflection(base: str) -> list[str]:
    """The flags that point to the server."""
    return ["--coevo.reflection.model", "openai/teacher", "--coevo.reflection.api_base", base]


def events(result: Result, *names: str) -> list[dict[str, Any]]:
    """The journal's events, or those with these names."""
    path = Path(result.folder) / "checkpoints" / "coevo" / "events.jsonl"
    written = [json.loads(line) for line in path.read_text().splitlines()]
    return [event for event in written if not names or event["event"] in names]
