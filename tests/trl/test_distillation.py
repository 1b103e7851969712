"""Check context distillation in the real trainers: what reaches the loss under many settings.

`tests/laws/trl/test_trl_adapter.py` has what must reach it under any.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM
from trl import RLOOTrainer

from helpers.spies import Spy, manual_logps, unpadded
from helpers.trl_world import TASKS, FixedTemplates, right_hint, rows
from prompt_coevo.adapters.trl import CoevoCallback
from prompt_coevo.adapters.trl.distill import PromptExchange
from prompt_coevo.types import Assignment, Candidate
from worlds.pairs.world import base_policy_path

HINTS = {f"q{n}": [right_hint(task), "note please", ""] for n, task in enumerate(TASKS[:5])}
SETTINGS = {"algorithms": (), "question_id_column": "id"}


def train(trainer: Any, templates: dict[str, list[str]] = HINTS, **settings: Any) -> Spy:
    spy = Spy.on(trainer)
    callback = CoevoCallback(
        trainer, SETTINGS | settings, plugins={"templates": FixedTemplates(templates)}
    )
    trainer.add_callback(callback)
    trainer.train()
    return spy


def base_policy() -> Any:
    """Load it anew: a copy of the trainer's model would share its patched forward."""
    return AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32).eval()


def prompt_ids(tokenizer: Any, template: str | None, question: str) -> list[int]:
    content = f"{template}\n\n{question}" if template else question
    chat = [{"role": "user", "content": content}]
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True)
    return list(ids["input_ids"])


def test_distilled_rows_get_the_questions_tokens_and_others_keep_theirs() -> None:
    hint = Candidate("in short", "template")
    plan = [Assignment("q", template=one) for one in (hint, None, hint)]
    trainer: Any = SimpleNamespace(_tokenize_prompts=lambda prompts: ([[len(p)] for p in prompts],))
    trained = PromptExchange(trainer).apply(plan, ["?", "??", "???"], [[7, 8, 9], [4, 5], [6, 7]])
    assert trained == [[1], [4, 5], [3]]


@pytest.mark.parametrize(
    "config",
    [
        {"beta": 0.1, "num_iterations": 2, "steps_per_generation": 2, "max_steps": 4},
        {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 4},
        {"gradient_accumulation_steps": 2, "steps_per_generation": 4, "beta": 0.1, "max_steps": 4},
        {"importance_sampling_level": "sequence", "num_iterations": 2},
    ],
)
def test_in_clean_mode_every_logp_is_a_forward_pass_on_the_question(
    make_trainer: Any, tokenizer: Any, config: dict[str, Any]
) -> None:
    temperature = config.get("temperature", 1.0)
    trainer = make_trainer(**config)
    spy = train(trainer)
    questions = [prompt_ids(tokenizer, None, task.question) for task in TASKS]
    assert spy.losses
    for loss, (used, manual) in zip(spy.losses, spy.logps, strict=True):
        mask = loss["completion_mask"].bool()
        assert all(prompt in questions for prompt, _ in unpadded(loss))
        # Compare the loss's log-probs with a forward pass of the same weights on its inputs.
        assert (used - manual)[mask].abs().max() <= 1e-5
        if "ref_per_token_logps" in loss:
            prompts = [prompt for prompt, _ in unpadded(loss)]
            reference = manual_logps(
                base_policy(), prompts, loss, tokenizer.pad_token_id, temperature
            )
            assert (loss["ref_per_token_logps"] - reference)[mask].abs().max() <= 1e-5
    first = spy.losses[0]  # its weights are those that the round was generated with
    if "old_per_token_logps" in first:
        mask = first["completion_mask"].bool()
        assert (first["old_per_token_logps"] - spy.logps[0][1])[mask].abs().max() <= 1e-5


def test_without_distillation_the_template_is_trained_on(make_trainer: Any, tokenizer: Any) -> None:
    spy = train(make_trainer(), context_distillation=False)
    means = tokenizer.convert_tokens_to_ids("means")
    trained = [prompt for index in range(len(spy.losses)) for prompt, _ in spy.rows(index)]
    assert any(means in prompt for prompt in trained)
    sampled = sorted(prompt for prompts, _ in spy.sampled for prompt in prompts)
    assert sorted(trained) == sampled


def test_string_prompts(make_trainer: Any, tokenizer: Any) -> None:
    spy = train(make_trainer(dataset=rows(kind="string")))
    questions = [
        tokenizer(f"<user> {task.question} <end> <assistant>")["input_ids"] for task in TASKS
    ]
    for index in range(len(spy.losses)):
        assert all(prompt in questions for prompt, _ in spy.rows(index))
    means = tokenizer.convert_tokens_to_ids("means")
    assert any(means in prompt for prompts, _ in spy.sampled for prompt in prompts)


def test_without_an_instruction_evaluation_is_on_the_original_prompts(make_trainer: Any) -> None:
    seen: dict[bool, list[Any]] = {True: [], False: []}

    def reward(prompts: Any, completions: Any, **_: Any) -> list[float]:
        seen[built.model.training] += prompts
        return [float(len(c[0]["content"])) for c in completions]

    evaluation = rows(TASKS[:2])
    built = make_trainer(
        RLOOTrainer,
        reward_funcs=reward,
        eval_dataset=Dataset.from_list(evaluation),
        eval_strategy="steps",
        eval_steps=1,
        per_device_eval_batch_size=8,
    )
    spy = train(built)
    originals = [row["prompt"] for row in rows()]
    assert seen[True]
    assert seen[False]
    for prompts in seen.values():
        assert all(prompt in originals for prompt in prompts)
    evaluated = [loss for loss in spy.losses if not loss["training"]]
    assert evaluated
    questions = {task.question for task in TASKS[:2]}
    for loss in evaluated:
        for ids, mask in zip(loss["prompt_ids"], loss["prompt_mask"], strict=True):
            text = built.processing_class.decode(ids[mask.bool()])
            assert text.removeprefix("<user> ").removesuffix(" <end> <assistant>") in questions


def test_groups_with_different_templates_have_one_baseline(make_trainer: Any) -> None:
    trainer = make_trainer(max_steps=1, scale_rewards="none")
    spy = train(trainer)
    (loss,) = spy.losses
    assert loss["advantages"].sum().abs() < 1e-4  # each group's advantages sum to zero
    assert loss["advantages"].abs().sum() > 0
    assert torch.isfinite(loss["advantages"]).all()
