"""Check runs of one epoch, groups of any size, and early-stopped runs, in the real GRPOTrainer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.families import Teacher
from helpers.trl_runs import EPOCHS, events, know_all
from helpers.trl_world import WORLD, rows, score
from prompt_coevo.adapters.trl import attach
from prompt_coevo.engine.state import read_state
from prompt_coevo.errors import EarlySignError
from worlds.pairs.splits import make_splits

ONE = {**EPOCHS, "num_train_epochs": 1}
MANY = [task for task in make_splits(WORLD, 0, 256, 8).train if task.kind == "hard"][:40]
"""Questions that each share words with others."""
SAVES = {"save_strategy": "steps", "save_steps": 1}


def own(teacher: Any, **changes: Any) -> dict[str, Any]:
    return {"question_id_column": "id", "reflection": {"function": teacher}, **changes}


def nothing(completions: Sequence[Any], **_: Any) -> list[float]:
    return [0.0 for _ in completions]


def templated(trainer: Any) -> bool:
    found = [one.get("coevo/templated_fraction", 0.0) for one in trainer.state.log_history]
    return any(found)


@pytest.mark.parametrize("steps", [15, 20])
def test_a_run_of_one_epoch_or_less_uses_templates_and_pays_for_none_too_late(
    make_trainer: Any, steps: int
) -> None:
    teacher, at = Teacher(know_all), []
    trainer = make_trainer(dataset=rows(MANY), **{**ONE, "max_steps": steps})
    attach(trainer, own(lambda prompt: at.append(trainer.state.global_step) or teacher(prompt)))
    trainer.train()
    assert templated(trainer)
    assert at
    assert max(at) < steps - 1


def test_one_epoch_without_first_sight_pays_nothing(make_trainer: Any) -> None:
    teacher = Teacher(know_all)
    trainer = make_trainer(**ONE)
    attach(trainer, own(teacher, stream={"first_sight": False}))
    trainer.train()
    assert not teacher.prompts
    assert not templated(trainer)


def test_calls_of_a_second_train_count_to_its_own_end(make_trainer: Any) -> None:
    """Its steps are counted after those of the first one."""
    trainer, at = make_trainer(**EPOCHS), []

    def idea(prompt: str) -> str:
        at.append(trainer.state.global_step)
        return f"<template>idea {len(at)}</template>"

    callback = attach(trainer, own(idea, stream={"calls_per_hard": "unlimited"}))
    trainer.train()
    assert max(at) < 11
    del at[:]
    trainer.train()
    assert callback.engine.context.workload.steps == 24
    assert callback.engine.context.workload.epochs == 6.0
    assert 8 <= max(at) < 11


@pytest.mark.parametrize("size", [4, 64])
def test_groups_of_any_size(make_trainer: Any, size: int) -> None:
    batch = {"num_generations": size, "per_device_train_batch_size": 2 * size}
    trainer = make_trainer(dataset=rows(MANY), **{**ONE, **batch})
    attach(trainer, own(know_all))
    trainer.train()
    assert templated(trainer)


def test_an_early_sign_ends_the_run_and_leaves_its_checkpoints(
    make_trainer: Any, tmp_path: Path
) -> None:
    asked: list[str] = []

    def silent(prompt: str) -> str:
        asked.append(prompt)
        return "<template>think of it</template>"

    trainer = make_trainer(**{**EPOCHS, "reward_funcs": nothing}, **SAVES)
    callback = attach(trainer, own(silent, early_signs="stop"))
    with pytest.raises(EarlySignError, match="the deciding reward is 0 for every one; if some"):
        trainer.train()
    assert trainer.state.global_step == 4
    told = [event["event"] for event in events(trainer)]
    assert told.count("early_sign") == told.count("training_ended") == 1
    before = len(asked)
    assert read_state(tmp_path / "out" / "coevo" / "state.json")["step"] == 3
    assert sorted(one.name for one in (tmp_path / "out").glob("checkpoint-*")) == [
        f"checkpoint-{step}" for step in (1, 2, 3)
    ]
    callback.detach()
    again = make_trainer(**{**EPOCHS, "reward_funcs": score}, **SAVES)
    attach(again, own(silent, early_signs="stop"))
    again.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-3"))
    assert again.state.global_step == 12
    assert len(asked) >= before


def test_by_default_it_is_said_and_the_run_goes_on(make_trainer: Any) -> None:
    trainer = make_trainer(**{**EPOCHS, "reward_funcs": nothing})
    attach(trainer, own(know_all))
    trainer.train()
    assert trainer.state.global_step == 12
    assert "early_sign" in json.dumps([event["event"] for event in events(trainer)])
    assert all(torch.isfinite(one).all() for one in trainer.model.parameters())
