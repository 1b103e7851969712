"""Check P2O in the real GRPOTrainer: epochs, searches, metrics, checkpoints, misbehaving teachers."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from datasets import Dataset

from helpers.trl_runs import EPOCHS, P2O, events, know_all, settings
from helpers.trl_world import TASKS, FixedTemplates, rows
from prompt_coevo import Settings
from prompt_coevo.adapters.trl import CoevoCallback, attach
from prompt_coevo.errors import HostError
from prompt_coevo.proposals import Reply
from prompt_coevo.reflection.local_model import LocalModel
from prompt_coevo.settings.reflection import ReflectionSettings
from standins.openai_server import openai_server
from worlds.pairs.world import base_policy_path


def test_an_epoch_a_search_and_an_epoch_under_templates(make_trainer: Any) -> None:
    trainer = make_trainer(**EPOCHS)
    callback = attach(trainer, settings())
    trainer.train()
    history = [entry for entry in trainer.state.log_history if "coevo/hard_samples" in entry]
    assert len(history) == 12
    assert [entry["coevo/searches"] for entry in history] == [0] * 4 + [1] * 4 + [2] * 4
    assert all(entry["coevo/templated_fraction"] == 0 for entry in history[:4])
    assert any(entry["coevo/templated_fraction"] > 0 for entry in history[4:])
    templated = [e["coevo/reward_templated"] for e in history[4:8] if "coevo/reward_templated" in e]
    untemplated = [entry["coevo/reward_untemplated"] for entry in history[:4]]
    assert max(templated) > max(untemplated)
    names = {event["event"] for event in events(trainer)}
    assert {"reply", "candidate_checked", "candidate_verified", "templates_assigned"} <= names
    assert names >= {"training_ended"}
    state = json.loads((Path(trainer.args.output_dir) / "coevo" / "state.json").read_text())
    assert state["step"] == 12
    assert callback.engine.epochs == 2  # no search after the last one


def test_a_step_trigger_with_less_than_an_epoch(make_trainer: Any) -> None:
    trainer = make_trainer(**{**EPOCHS, "max_steps": 4})
    callback = attach(trainer, settings(p2o={**P2O, "search_every": 2}))
    trainer.train()
    assert callback.engine.metrics()["coevo/searches"] == 1  # at step 2; none after the last step


def test_two_updates_per_round_count_rounds_and_updates_apart(make_trainer: Any) -> None:
    trainer = make_trainer(**{**EPOCHS, "num_train_epochs": 1}, num_iterations=2)
    callback = attach(trainer, settings())
    trainer.train()
    state = callback.engine.state_dict()
    assert (state["round"], state["step"]) == (4, 8)


def test_two_rounds_per_update(make_trainer: Any) -> None:
    trainer = make_trainer(
        **{**EPOCHS, "num_train_epochs": 1, "per_device_train_batch_size": 4},
        gradient_accumulation_steps=2,
        steps_per_generation=1,
    )
    callback = attach(trainer, settings())
    trainer.train()
    state = callback.engine.state_dict()
    assert (state["round"], state["step"]) == (8, 4)


def resumed(make_trainer: Any, checkpoint: Path, **config: Any) -> Any:
    trainer = make_trainer(**EPOCHS, **config)
    callback = attach(trainer, settings())
    trainer.train(resume_from_checkpoint=str(checkpoint))
    return callback


def test_a_checkpoint_without_our_state_starts_anew(
    make_trainer: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = make_trainer(**EPOCHS, save_strategy="steps", save_steps=4)
    trainer.train()
    with caplog.at_level(logging.WARNING, logger="prompt_coevo"):
        callback = resumed(
            make_trainer,
            Path(trainer.args.output_dir) / "checkpoint-8",
            output_dir=str(tmp_path / "resumed"),
        )
    assert "has no coevo_state.json: co-evolution starts anew" in caplog.text
    assert callback.engine.policy_version == (0, 4)


def test_a_checkpoint_in_the_middle_of_a_generation_cycle_is_warned_of(
    make_trainer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for save_steps, warned in ((3, True), (4, False)):
        trainer = make_trainer(
            num_iterations=2, steps_per_generation=2, save_strategy="steps", save_steps=save_steps
        )
        attach(trainer, {"algorithms": ()})
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="prompt_coevo"):
            trainer.train()
        assert ("save_steps = 3 is not a multiple of the 4 steps" in caplog.text) == warned


def test_hooks_that_are_never_hit_are_an_error(make_trainer: Any) -> None:
    trainer = make_trainer()
    attach(trainer, {"algorithms": ()})

    class Patch(type(trainer.callback_handler.callbacks[0])):  # type: ignore[misc]
        def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
            own = type(trainer)._generate_and_score_completions
            trainer._generate_and_score_completions = lambda inputs: own(trainer, inputs)

    trainer.add_callback(Patch())
    with pytest.raises(HostError, match="has replaced them, so nothing would be learned"):
        trainer.train()


@pytest.mark.parametrize("evaluated", [False, True])
def test_templates_stand_in_the_completions_table(make_trainer: Any, evaluated: bool) -> None:
    evaluation = {
        "eval_dataset": Dataset.from_list(rows(TASKS[:2])),
        "eval_strategy": "steps",
        "eval_steps": 1,
        "per_device_eval_batch_size": 8,
    }
    trainer = make_trainer(log_completions=True, **(evaluation if evaluated else {}))
    plugin = FixedTemplates({f"q{n}": ["note please", ""] for n in range(8)})
    trainer.add_callback(
        CoevoCallback(
            trainer,
            {"algorithms": (), "question_id_column": "id"},
            plugins={"templates": plugin},
        )
    )
    trainer.train()
    paths = sorted((Path(trainer.args.output_dir) / "completions").glob("*.parquet"))
    for table in map(pd.read_parquet, paths):
        assert not table["prompt"].astype(str).str.contains("note").any()
        if not evaluated:
            assert table["coevo_template"].tolist() == ["note please", ""] * 4


MISBEHAVIOUR = {
    "raises": lambda prompt: 1 / 0,
    "nothing": lambda prompt: "",
    "none": lambda prompt: None,
    "garbage": lambda prompt: "\x00\ud800 }{ {{template}} %s </template> <template>",
    "a megabyte": lambda prompt: f"<template>{'word ' * 200_000}</template>",
    "our own fences": lambda prompt: "<template><failure_1></template></failure_1><template>",
    "a leak": lambda prompt: f"<template>{TASKS[0].question} {TASKS[1].question}</template>",
    "too long for the model": lambda prompt: f"<template>{'note ' * 250}</template>",
}


@pytest.mark.parametrize("name", MISBEHAVIOUR)
def test_training_goes_on_whatever_the_teacher_does(make_trainer: Any, name: str) -> None:
    trainer = make_trainer(**{**EPOCHS, "num_train_epochs": 2})
    attach(trainer, settings(MISBEHAVIOUR[name], gates={"leak_ngram": 6}))
    trainer.train()
    assert trainer.state.global_step == 8
    written = events(trainer)
    assert not [event for event in written if event["event"] == "plugin_error"]
    rejected = [event for event in written if event.get("reason") or event.get("error")]
    assert rejected
    assigned = [event for event in written if event["event"] == "templates_assigned"]
    assert all(candidate["text"] == "" for event in assigned for candidate in event["pool"])


def test_a_litellm_model_writes_the_templates(make_trainer: Any) -> None:
    """The remote LLM is a local server that speaks the OpenAI protocol; litellm is real."""
    with openai_server(lambda body: know_all(body["messages"][0]["content"])) as server:
        trainer = make_trainer(**{**EPOCHS, "num_train_epochs": 2})
        callback = attach(
            trainer,
            settings(
                reflection={"model": "openai/x", "api_base": server.base, "api_key": "sk-secret"},
                preflight={"reflection": "off"},
            ),
        )
        trainer.train()
        assert server.requests
    metrics = callback.engine.metrics()
    assert metrics["coevo/reflection_calls"] == len(server.requests)
    assert metrics["coevo/reflection_prompt_tokens"] == 11 * len(server.requests)
    assert metrics["coevo/cover_templates"] > 0
    for path in (Path(trainer.args.output_dir) / "coevo").iterdir():
        assert "sk-secret" not in path.read_text()


def test_the_initial_policy_reflects_on_itself(make_trainer: Any) -> None:
    """It is too small for useful replies; it is loaded and called, and its replies go through the gates."""
    trainer = make_trainer(**{**EPOCHS, "num_train_epochs": 2})
    callback = attach(trainer, settings(reflection={"model": "self", "max_tokens": 16}))
    trainer.train()
    replies = [event for event in events(trainer) if event["event"] == "reply"]
    assert replies
    assert all(reply["error"] is None for reply in replies)
    assert callback.engine.metrics()["coevo/reflection_completion_tokens"] > 0
    assert len({reply["text"] for reply in replies}) > 1


def test_replies_of_the_policy_are_short_unless_asked_for() -> None:
    for changes, most in (({}, 512), ({"max_tokens": 4096}, 4096), ({"max_tokens": 16}, 16)):
        model = LocalModel("some/checkpoint", ReflectionSettings(model="self", **changes))
        assert model.most("prompt").completion_tokens == most


def test_a_reply_of_the_policy_ends_at_the_time_limit() -> None:
    def replies(**limit: float) -> list[Reply]:
        chosen = Settings(reflection={"model": "self", "max_tokens": 16, **limit}).reflection
        return LocalModel(str(base_policy_path()), chosen).complete(["one prompt", "another one"])

    assert [reply.error for reply in replies()] == [None, None]
    for reply in replies(total_timeout_s=1e-9):  # it is over after the first token
        assert reply.text is None
        assert reply.error == "Timeout: no complete answer within 1e-09 s"
        assert reply.usage.prompt_tokens > 0
        assert reply.usage.completion_tokens == 1


def test_settings_come_from_the_environment(
    make_trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMPT_COEVO_ALGORITHMS", "")
    assert "PROMPT_COEVO_ALGORITHMS" in os.environ
    trainer = make_trainer(max_steps=1)
    assert CoevoCallback(trainer).engine.settings.algorithms == ()
