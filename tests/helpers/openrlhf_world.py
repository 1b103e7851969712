"""Share small settings, a teacher, and readers of run files between the OpenRLHF tests."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from helpers.openrlhf_run import Result
from helpers.verl_world import FIRST, MANY, TOKENIZER, teach, tokens

__all__ = [
    "BOTH",
    "FIRST",
    "GROUP",
    "INSPO",
    "MANY",
    "P2O",
    "TOKENIZER",
    "by_group",
    "events",
    "prompt_of",
    "reflection",
    "response_of",
    "sampled_under",
    "teach",
    "tokens",
]

GROUP = 4
"""Samples per prompt."""

# Above every reward, tau makes all questions hard, so that every epoch ends with a search.
P2O = (
    *("--coevo.p2o.overspend", "never", "--coevo.p2o.tau", "2.0"),
    *("--coevo.p2o.dev_size", "8", "--coevo.p2o.minibatch_size", "3"),
    *("--coevo.p2o.search_budget", "200", "--coevo.p2o.minibatch_temperature", "0.7"),
)
INSPO = (
    *("--coevo.inspo.instruction", FIRST, "--coevo.inspo.population_size", "3"),
    *("--coevo.inspo.prune_every", "2", "--coevo.inspo.evolve_every", "3"),
    *("--coevo.inspo.verify_size", "3", "--coevo.inspo.candidates_per_call", "2"),
    "--coevo.inspo.rounds=1",
)
BOTH = ("--coevo.algorithms", "inspo", "p2o", *P2O, *INSPO)
"""Both papers' methods; the choice `both` is INSPO and the stream."""


def reflection(base: str) -> list[str]:
    """Return the flags that point to the server. Preflight is off because tests count its requests."""
    return [
        *("--coevo.reflection.model", "openai/teacher", "--coevo.reflection.api_base", base),
        *("--coevo.preflight.reflection", "off"),
    ]


def events(result: Result, *names: str) -> list[dict[str, Any]]:
    """Return the journal's events, optionally only those with these names."""
    path = Path(result.folder) / "checkpoints" / "coevo" / "events.jsonl"
    written = [json.loads(line) for line in path.read_text().splitlines()]
    return [event for event in written if not names or event["event"] in names]


def prompt_of(row: dict[str, Any]) -> list[int]:
    """Return the tokens before the first one that the policy wrote."""
    return list(row["sequences"][: row["action_mask"].index(1) + 1])


def response_of(row: dict[str, Any]) -> list[int]:
    """Return the tokens after the prompt."""
    return list(row["sequences"][len(prompt_of(row)) :])


def by_group(result: Result) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """Return the rows that the loss got, by step and by their place before shuffling."""
    found: defaultdict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for row in result.actor:
        found[row["step"], row["position"] // GROUP].append(row)
    return found


def sampled_under(result: Result, row: dict[str, Any]) -> set[tuple[int, ...]]:
    """Return the prompts that a row's response was sampled under in its step."""
    return {
        tuple(event["prompt_ids"])
        for event in result.generated()
        if event["version"] == row["step"] - 1
        and event["temperature"] == 1.0
        and event["response_ids"] == response_of(row)
    }
