"""The search that never stops training in the real GRPOTrainer, and rollouts that ride along."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from helpers.trl_world import WORLD, score
from prompt_coevo import hookimpl
from prompt_coevo.adapters.trl import attach
from prompt_coevo.types import Assignment, Candidate, Rollout, RolloutRequest, Sampling

STREAM = {"search_backend": "stream", "tau": 0.5}
EPOCHS = {"max_steps": -1, "num_train_epochs": 4, "reward_funcs": score, "learning_rate": 1e-4}


def know_all(prompt: str) -> str:
    clauses = [f"{word} means {skill} ." for word, skill in WORLD.meaning.items() if word in prompt]
    return f"<template>{' '.join(clauses)}</template>"


def settings(**p2o: Any) -> dict[str, Any]:
    return {
        "question_id_column": "id",
        "p2o": {**STREAM, **p2o},
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


def test_riders_try_templates(make_trainer: Any) -> None:
    trainer = make_trainer(**EPOCHS)
    attach(trainer, settings(riders=0.5))
    trainer.train()
    history = [entry for entry in trainer.state.log_history if "coevo/search_rollouts" in entry]
    assert history[-1]["coevo/search_rollouts"] > 0
    assert (
        history[-1]["coevo/train_rollouts"]
        == sum(
            event["num_tokens"] > 0 for event in trainer.state.log_history if "num_tokens" in event
        )
        * trainer.args.per_device_train_batch_size
    )


class Wants:
    """Wants a few riders under a template with every batch, or none."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.back: list[Rollout] = []

    @hookimpl
    def coevo_wanted(self, capacity: int) -> Sequence[RolloutRequest]:
        template = Candidate("please note .", "template")
        return [
            RolloutRequest(Assignment(f"q{number}", template=template), Sampling(temperature))
            for number, temperature in zip(range(self.count), (None, 0.0, 0.5), strict=False)
        ]

    @hookimpl
    def coevo_observe_riders(self, rollouts: Sequence[Rollout]) -> None:
        self.back += rollouts


def test_a_batch_with_riders_is_trained_on_as_one_without(make_trainer: Any) -> None:
    """Bit by bit: rows, losses, weights and what is logged."""
    weights, logs = [], []
    for count in (0, 3):
        wants = Wants(count)
        trainer = make_trainer(**EPOCHS)
        attach(trainer, {"algorithms": (), "question_id_column": "id"}, plugins={"wants": wants})
        trainer.train()
        assert len(wants.back) == count * trainer.state.global_step
        weights.append([parameter.detach().clone() for parameter in trainer.model.parameters()])
        logs.append([without_times(entry) for entry in trainer.state.log_history])
    assert all(torch.equal(one, other) for one, other in zip(*weights, strict=True))
    assert logs[0] == logs[1]
    assert len({one.assignment.round for one in wants.back}) == trainer.state.global_step


def without_times(entry: dict[str, Any]) -> dict[str, Any]:
    timed = ("time", "second")
    return {name: value for name, value in entry.items() if not any(word in name for word in timed)}
