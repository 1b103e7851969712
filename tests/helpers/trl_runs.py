"""Run P2O or the stream in the real GRPOTrainer on the demo's world: settings, ideal teacher, journal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.trl_world import WORLD, score

# Above every reward, tau makes all questions hard, so that every epoch ends with a search.
P2O = {
    "overspend": "never",
    "tau": 2.0,
    "dev_size": 3,
    "minibatch_size": 3,
    "search_budget": 60,
    "minibatch_temperature": 1.0,
}


def know_all(prompt: str) -> str:
    clauses = [f"{word} means {skill} ." for word, skill in WORLD.meaning.items() if word in prompt]
    return f"<template>{' '.join(clauses)}</template>"


def settings(reply: Callable[[str], str] = know_all, **changes: Any) -> dict[str, Any]:
    """Return settings for P2O, or for the stream if its section is given."""
    p2o = {} if "stream" in changes else {"algorithms": "p2o", "p2o": P2O}
    return {"question_id_column": "id", "reflection": {"function": reply}, **p2o, **changes}


def events(trainer: Any) -> list[dict[str, Any]]:
    path = Path(trainer.args.output_dir) / "coevo" / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


# An epoch: 8 questions, 2 a step, so 4 steps.
EPOCHS = {"max_steps": -1, "num_train_epochs": 3, "reward_funcs": score, "learning_rate": 1e-4}


def epoch_searches(trainer: Any) -> list[int]:
    """Return the steps at which a search gave templates."""
    return [event["step"] for event in events(trainer) if event["event"] == "templates_assigned"]
