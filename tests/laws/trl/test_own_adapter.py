"""Check the example adapter with P2O. `test_adapter.py` has what every adapter must do."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from helpers.trl_world import WORLD, rows
from own_adapter import OwnAdapter
from own_trainer import Config, OwnTrainer
from prompt_coevo import Settings
from prompt_coevo.errors import HostError
from worlds.pairs.world import base_policy_path, reward

P2O = {
    "overspend": "never",
    "dev_size": 3,
    "minibatch_size": 3,
    "search_budget": 60,
    "minibatch_temperature": 1.0,
}


def know_all(prompt: str) -> str:
    """Act as a scripted reflection model that knows what every word means."""
    clauses = [f"{word} means {skill} ." for word, skill in WORLD.meaning.items() if word in prompt]
    return f"<template>{' '.join(clauses)}</template>"


def arguments(**config: Any) -> tuple[Any, ...]:
    return (
        AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32),
        AutoTokenizer.from_pretrained(base_policy_path()),
        rows(),
        lambda question, text: reward(text, question["answer"]),
        Config(group_size=4, updates_per_round=1, **config),
    )


def test_p2o_searches_between_the_epochs_and_its_templates_help(tmp_path: Path) -> None:
    settings = Settings(
        algorithms="p2o", p2o=P2O, reflection={"function": know_all}, question_id_column="id"
    )
    adapter = OwnAdapter(*arguments(), settings=settings, output_dir=tmp_path)
    adapter.train(3)
    assert [line["coevo/searches"] for line in adapter.log] == [0, 1, 2]
    assert adapter.log[0]["reward"] == 0.0  # nothing to learn from, without a template
    assert max(line.get("coevo/reward_templated", 0.0) for line in adapter.log) > 0.2
    assert "templates_assigned" in (tmp_path / "coevo" / "events.jsonl").read_text("utf-8")


def test_the_trainer_alone_punished_from_a_reward_that_differs() -> None:
    """Otherwise the laws would be about a loop that does not train."""
    model, tokenizer, dataset, _, config = arguments(learning_rate=2e-3)
    trainer = OwnTrainer(
        model, tokenizer, dataset, lambda question, text: float(text.split().count("5")), config
    )
    trainer.train(10)
    rewards = [line["reward"] for line in trainer.log]
    assert sum(rewards[-3:]) > 2 * sum(rewards[:3])


def test_a_checkpoint_of_the_bare_trainer_starts_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    OwnTrainer(*arguments()).save(tmp_path / "bare.pt")
    settings = Settings(algorithms="p2o", p2o=P2O, reflection={"function": know_all})
    adapter = OwnAdapter(*arguments(), settings=settings)
    with caplog.at_level(logging.WARNING):
        adapter.load(tmp_path / "bare.pt")
    assert "co-evolution starts anew" in caplog.text


def test_a_forward_pass_that_is_not_built_is_refused() -> None:
    with pytest.raises(HostError, match="this trainer has no distill_forward"):
        OwnAdapter(*arguments(), settings=Settings(distill_forward=True))
