"""Check that distillation leaves no trace: with completions that do not depend on the prompt, a run with
templates ends with the weights of the bare trainer, bit for bit.

Stand-in: the sampler, which writes tokens from a fixed sequence whatever it is asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig
from trl import GRPOTrainer, RLOOTrainer

from helpers.torchrun import on_two_ranks
from helpers.trl_ghost import GhostGRPO, GhostRLOO, give_templates, odd
from prompt_coevo.adapters.trl.distill import PromptExchange


def trained(make_trainer: Any, kind: type, templates: bool, **config: Any) -> dict[str, Any]:
    """Return the weights that were trained."""
    like = RLOOTrainer if kind is GhostRLOO else GRPOTrainer
    built = make_trainer(kind, reward_funcs=odd, like=like, **({"max_steps": 4} | config))
    under = give_templates(built) if templates else set()
    built.train()
    assert bool(under) == templates
    return {name: one.detach().clone() for name, one in built.model.named_parameters()}


def differ(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return [name for name in one if not torch.equal(one[name], other[name])]


LORA = {"peft_config": LoraConfig(r=4, target_modules="all-linear")}


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        *(
            (GhostGRPO, {"loss_type": name})
            for name in ("grpo", "dapo", "dr_grpo", "bnpo", "cispo")
        ),
        (GhostGRPO, {"importance_sampling_level": "sequence", "num_iterations": 2}),
        (GhostGRPO, {"beta": 0.1, "num_iterations": 2}),
        (GhostGRPO, {"beta": 0.1, "gradient_accumulation_steps": 2, "steps_per_generation": 4}),
        (GhostGRPO, {"gradient_accumulation_steps": 4, "per_device_train_batch_size": 4}),
        (GhostGRPO, {"top_entropy_quantile": 0.5}),
        (GhostGRPO, {"scale_rewards": "batch"}),
        (GhostGRPO, {"mask_truncated_completions": True}),
        (GhostGRPO, {"gradient_checkpointing": True}),
        (GhostGRPO, {"trainer_arguments": LORA, "beta": 0.1}),
        (GhostRLOO, {}),
        (GhostRLOO, {"beta": 0.1, "num_iterations": 2}),
    ],
    ids=str,
)
def test_templates_leave_no_trace(make_trainer: Any, kind: type, config: dict[str, Any]) -> None:
    bare = trained(make_trainer, kind, templates=False, **config)
    assert differ(bare, trained(make_trainer, kind, templates=True, **config)) == []
    start = trained(make_trainer, kind, templates=False, **config | {"learning_rate": 0.0})
    assert differ(bare, start)


def one_row_keeps_its_template(monkeypatch: pytest.MonkeyPatch) -> None:
    apply, calls = PromptExchange.apply, []

    def mutant(self: Any, assignments: Any, prompts: Any, rolled_out: Any) -> Any:
        calls.append(None)
        trained = apply(self, assignments, prompts, rolled_out)
        if len(calls) == 2:
            trained[1] = list(rolled_out[1])
        return trained

    monkeypatch.setattr(PromptExchange, "apply", mutant)


def a_row_has_another_rows_question(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = PromptExchange.apply

    def mutant(self: Any, *arguments: Any) -> Any:
        trained = apply(self, *arguments)
        trained[0], trained[-1] = trained[-1], trained[0]
        return trained

    monkeypatch.setattr(PromptExchange, "apply", mutant)


@pytest.mark.parametrize("mutate", [one_row_keeps_its_template, a_row_has_another_rows_question])
def test_a_trace_is_found(make_trainer: Any, monkeypatch: pytest.MonkeyPatch, mutate: Any) -> None:
    """One row of eight in one of sixteen rounds is less than 1 % of them."""
    bare = trained(make_trainer, GhostGRPO, templates=False, max_steps=16)
    mutate(monkeypatch)
    assert differ(bare, trained(make_trainer, GhostGRPO, templates=True, max_steps=16))


def test_templates_leave_no_trace_on_two_ranks(tmp_path: Path) -> None:
    found = set()
    for name, templates in (("bare", "0"), ("templated", "1")):
        (tmp_path / name).mkdir()
        on_two_ranks(Path(__file__).with_name("ghost_ranks.py"), str(tmp_path / name), templates)
        found |= {(tmp_path / name / f"rank{rank}.txt").read_text() for rank in range(2)}
    assert len(found) == 1
