"""Check that distillation leaves no trace: with completions that do not depend on the prompt, a run with
templates ends with the weights of the bare trainer, bit for bit.

Stand-in: the sampler, which writes tokens from a fixed sequence whatever it is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from peft import LoraConfig
from trl import GRPOTrainer, RLOOTrainer

from helpers.trl_world import TASKS, FixedTemplates, right_hint
from prompt_coevo import hookimpl
from prompt_coevo.adapters.trl import CoevoCallback
from prompt_coevo.adapters.trl.distill import PromptExchange
from prompt_coevo.types import Group

HALF = {f"q{n}": ["", right_hint(task), "", "note please"] for n, task in enumerate(TASKS)}
"""Half of each group is templated, by texts of several lengths."""
WORDS = (8, 40)
"""The ids from which completions are drawn: words, no marks of the chat template."""


class Ghost:
    """Answers by a sequence of its own: for a trainer class to inherit from, before the trainer."""

    def _generate_single_turn(self, prompt_ids: Sequence[Any], *_: Any, **__: Any) -> Any:
        numbers = torch.Generator().manual_seed(self.__dict__.setdefault("asked", 0))
        self.__dict__["asked"] += 1
        lengths = torch.randint(1, 12, (len(prompt_ids),), generator=numbers).tolist()
        end = self.processing_class.eos_token_id  # type: ignore[attr-defined]
        ids = [
            [*torch.randint(*WORDS, (length,), generator=numbers).tolist(), end]
            for length in lengths
        ]
        return ids if isinstance(self, RLOOTrainer) else (ids, None)


class GhostGRPO(Ghost, GRPOTrainer):
    pass


class GhostRLOO(Ghost, RLOOTrainer):
    pass


def odd(completion_ids: Any, **_: Any) -> list[float]:
    """A reward with other values in each group."""
    return [float(sum(ids) % 5) for ids in completion_ids]


class Watch:
    """Collects the templates of observed rollouts."""

    def __init__(self, under: set[str]) -> None:
        self._under = under

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        rollouts = [rollout for group in groups for rollout in group.rollouts]
        self._under.update(
            one.assignment.template.text
            for one in rollouts
            if one.assignment.templated and one.assignment.template
        )


def trained(make_trainer: Any, kind: type, templates: bool, **config: Any) -> dict[str, Any]:
    """Return the weights that were trained."""
    like = RLOOTrainer if kind is GhostRLOO else GRPOTrainer
    built = make_trainer(kind, reward_funcs=odd, like=like, **({"max_steps": 4} | config))
    under: set[str] = set()
    if templates:
        plugins = {"templates": FixedTemplates(HALF), "watch": Watch(under)}
        settings = {"algorithms": (), "question_id_column": "id"}
        built.add_callback(CoevoCallback(built, settings, plugins=plugins))
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
