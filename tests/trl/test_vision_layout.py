"""Text-only training of a model laid out for vision and language."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from trl import GRPOTrainer, RLOOTrainer

from helpers.spies import Logps, Spy
from helpers.tiny_llava import tiny_llava
from helpers.trl_runs import EPOCHS, epoch_searches, events, settings
from helpers.trl_world import TASKS, FixedTemplates, right_hint, rows
from prompt_coevo.adapters.trl import attach
from prompt_coevo.adapters.trl.checks import prompt_limit
from prompt_coevo.settings import Settings

HINTS = {f"q{n}": [right_hint(task)] for n, task in enumerate(TASKS) if n % 2}
LOW, HIGH = 0.05, 4.0


def placed(trainer: Any) -> dict[tuple[int, ...], list[int]]:
    """What every question is sampled on, by what it is trained on."""
    place = Settings(algorithms=()).placement.build().place
    chats = [row["prompt"] for row in rows()]
    hints = [HINTS.get(f"q{n}", [""])[0] for n in range(len(chats))]
    under = [
        place(chat, None, hint) if hint else chat for chat, hint in zip(chats, hints, strict=True)
    ]
    pairs = zip(
        trainer._tokenize_prompts(chats)[0], trainer._tokenize_prompts(under)[0], strict=True
    )
    return {tuple(bare): list(full) for bare, full in pairs}


@pytest.mark.parametrize("trainer_class", [GRPOTrainer, RLOOTrainer])
@pytest.mark.parametrize("mode", ["clean", "band", "templated"])
def test_old_log_probs_are_those_that_the_mode_says(
    make_trainer: Any, trainer_class: type, mode: str
) -> None:
    trainer = make_trainer(
        trainer_class, policy=tiny_llava(), max_steps=1, per_device_train_batch_size=16
    )
    assert getattr(trainer, "_is_vlm", True)  # TRL 1.0 has no such name
    base, spy = tiny_llava()[0].eval(), Spy.on(trainer)
    given = {"algorithms": (), "question_id_column": "id", "distill_ratio": mode}
    if mode == "band":
        given["distill_band"] = (LOW, HIGH)
    attach(trainer, given, plugins={"templates": FixedTemplates(HINTS)})
    trainer.train()
    found = Logps(spy, 0, trainer.processing_class.tokenizer, base, placed(trainer))
    assert found.templated.any()
    assert not found.templated.all()
    expected = torch.where(
        found.templated[:, None] & (mode == "templated"), found.on_rollout, found.on_question
    )
    keep = found.mask
    if mode == "band":
        ratio = (found.on_question - found.on_rollout).exp()
        keep = keep & (((ratio >= LOW) & (ratio <= HIGH)) | ~found.templated[:, None])
        assert (found.mask & ~keep).any()
    if trainer_class is RLOOTrainer:
        assert (found.loss["old_logps"] - (expected * keep).sum(1)).abs().max() < 1e-3
        return
    if mode == "templated":
        assert found.close(found.loss["old_per_token_logps"], expected)
    if mode == "band":
        assert torch.equal(found.loss["tool_mask"].bool() & found.mask, keep)


def test_the_length_gate_knows_the_limit_of_the_part_for_text(make_trainer: Any) -> None:
    trainer = make_trainer(policy=tiny_llava())
    assert not hasattr(trainer.model.config, "max_position_embeddings")
    assert prompt_limit(trainer).tokens() == 256


@pytest.mark.parametrize("mode", ["band", "templated"])
def test_a_search_and_an_epoch_under_its_templates(make_trainer: Any, mode: str) -> None:
    trainer = make_trainer(**{**EPOCHS, "num_train_epochs": 2}, policy=tiny_llava())
    attach(trainer, settings(distill_ratio=mode))
    trainer.train()
    assert epoch_searches(trainer) == [4]
    assert not [event for event in events(trainer) if event["event"] == "plugin_error"]
    last = trainer.state.log_history[-2]
    assert last["coevo/templated_fraction"] > 0
