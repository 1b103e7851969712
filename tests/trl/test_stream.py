"""Check the stream, which never stops training, in the real GRPOTrainer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from helpers.trl_world import WORLD, score
from prompt_coevo.adapters.trl import attach

EPOCHS = {"max_steps": -1, "num_train_epochs": 4, "reward_funcs": score, "learning_rate": 1e-4}


def know_all(prompt: str) -> str:
    clauses = [f"{word} means {skill} ." for word, skill in WORLD.meaning.items() if word in prompt]
    return f"<template>{' '.join(clauses)}</template>"


def settings(**changes: Any) -> dict[str, Any]:
    return {
        "question_id_column": "id",
        "stream": {"tau": 0.5, **changes},
        "reflection": {"function": know_all},
    }


def events(trainer: Any) -> list[dict[str, Any]]:
    path = Path(trainer.args.output_dir) / "coevo" / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_templates_are_found_and_used_and_nothing_waits(make_trainer: Any) -> None:
    trainer = make_trainer(**EPOCHS)
    callback = attach(trainer, settings())
    asked = []
    callback.policy.rollout = lambda requests: asked.append(requests)
    trainer.train()
    assert asked == []
    history = [entry for entry in trainer.state.log_history if "coevo/hard_samples" in entry]
    assert history[-1]["coevo/templates_in_use"] > 0
    assert any(
        entry["coevo/reward_templated"] > 0.3
        for entry in history[8:]
        if "coevo/reward_templated" in entry
    )
    assert "template_joined" in {event["event"] for event in events(trainer)}
