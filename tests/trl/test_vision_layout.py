"""Check text-only training of a model laid out for vision and language."""

from __future__ import annotations

from typing import Any

import pytest
from trl import GRPOTrainer, RLOOTrainer

from helpers.spies import Logps, Spy
from helpers.tiny_llava import tiny_llava
from helpers.trl_runs import EPOCHS, epoch_searches, events, settings
from helpers.trl_world import TASKS, FixedTemplates, right_hint, rows
from prompt_coevo.adapters.trl import attach
from prompt_coevo.adapters.trl.checks import prompt_limit
from prompt_coevo.settings import Settings

HINTS = {f"q{n}": [right_hint(task)] for n, task in enumerate(TASKS) if n % 2}


def placed(trainer: Any) -> dict[tuple[int, ...], list[int]]:
    """Map what every question is trained on to what it is sampled on."""
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
def test_log_probs_are_those_on_the_question(make_trainer: Any, trainer_class: type) -> None:
    trainer = make_trainer(
        trainer_class, policy=tiny_llava(), max_steps=1, per_device_train_batch_size=16
    )
    assert getattr(trainer, "_is_vlm", True)  # TRL 1.0 has no such name
    base, spy = tiny_llava()[0].eval(), Spy.on(trainer)
    given = {"algorithms": (), "question_id_column": "id", "distill_forward": True}
    attach(trainer, given, plugins={"templates": FixedTemplates(HINTS)})
    trainer.train()
    found = Logps(spy, 0, trainer.processing_class.tokenizer, base, placed(trainer))
    assert found.templated.any()
    assert not found.templated.all()
    ((used, _),) = spy.logps
    assert found.close(used, found.on_question)
    if trainer_class is RLOOTrainer:
        sums = (found.on_question * found.mask).sum(1)
        assert (found.loss["old_logps"] - sums).abs().max() < 1e-3
    difference = (found.on_rollout - found.on_question)[found.templated[:, None] & found.mask]
    effect = trainer.state.log_history[0]["coevo/template_logp_difference"]
    assert effect == pytest.approx(float(difference.mean()), abs=1e-3)


def test_the_length_gate_knows_the_limit_of_the_part_for_text(make_trainer: Any) -> None:
    trainer = make_trainer(policy=tiny_llava())
    assert not hasattr(trainer.model.config, "max_position_embeddings")
    assert prompt_limit(trainer).tokens() == 256


def test_a_search_and_an_epoch_under_its_templates(make_trainer: Any) -> None:
    trainer = make_trainer(**{**EPOCHS, "num_train_epochs": 2}, policy=tiny_llava())
    attach(trainer, settings(distill_forward=True))
    trainer.train()
    assert epoch_searches(trainer) == [4]
    assert not [event for event in events(trainer) if event["event"] == "plugin_error"]
    last = trainer.state.log_history[-2]
    assert last["coevo/templated_fraction"] > 0
