"""Check that a renamed part of TRL ends the run with a sentence, never a silent continuation.

In a copy of the trainer's source one name is changed everywhere, and the result trains.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from transformers import Gemma3Config, GPT2Config, GPTNeoXConfig, LlamaConfig, OPTConfig
from trl import GRPOTrainer, RLOOTrainer

from helpers.trl_world import TASKS, FixedTemplates, right_hint, rows
from prompt_coevo.adapters.trl import attach
from prompt_coevo.adapters.trl.contract import _draws_at_random
from prompt_coevo.errors import HostError
from standins.trl_vllm import use_vllm

HINTS = {f"q{n}": [right_hint(task), "note please", "now", ""] for n, task in enumerate(TASKS)}


def rewritten(trainer: type, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the trainer's class from a source with `old` replaced by `new`, which our adapter takes for
    TRL's."""
    source = inspect.getsource(sys.modules[trainer.__module__])
    assert old in source
    name = f"{trainer.__module__}_rewritten"
    module = ModuleType(name)
    module.__package__ = "trl.trainer"
    module.__file__ = inspect.getfile(trainer)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(source.replace(old, new), name, "exec"), vars(module))
    made = getattr(module, trainer.__name__)
    for adapter in ("checks", "contract"):
        part = importlib.import_module(f"prompt_coevo.adapters.trl.{adapter}")
        if hasattr(part, trainer.__name__):
            monkeypatch.setattr(part, trainer.__name__, made)
    return made


def train(make_trainer: Any, made: type, kind: type, vllm: bool = False) -> None:
    trainer = make_trainer(made, max_steps=1, like=kind)
    if vllm:
        use_vllm(trainer)
    settings = {"algorithms": (), "question_id_column": "id"}
    attach(trainer, settings, plugins={"templates": FixedTemplates(HINTS)})
    trainer.train()


@pytest.mark.parametrize("kind", [GRPOTrainer, RLOOTrainer])
@pytest.mark.parametrize("vllm", [False, True])
def test_what_is_unchanged_trains(
    make_trainer: Any, monkeypatch: pytest.MonkeyPatch, kind: type, vllm: bool
) -> None:
    made = rewritten(kind, "import copy", "import copy ", monkeypatch)
    train(make_trainer, made, kind, vllm)


OWN = [
    "_generate_and_score_completions",
    "_generate_single_turn",
    "_calculate_rewards",
    "_tokenize_prompts",
    "_get_per_token_logps_and_entropies",
    "_log_completion_extra",
    "_pending_extra_logs",
    "_pending_metrics",
    "self.reward_weights",
    "self.reward_funcs",
    "self.num_generations_eval",
    "self.num_iterations",
    "self.max_completion_length",
]


@pytest.mark.parametrize("kind", [GRPOTrainer, RLOOTrainer])
@pytest.mark.parametrize("name", OWN)
def test_a_renamed_method_or_attribute(
    make_trainer: Any, monkeypatch: pytest.MonkeyPatch, kind: type, name: str
) -> None:
    made = rewritten(kind, name, f"{name}_renamed", monkeypatch)
    with pytest.raises(HostError, match=f"has no (method )?{name.removeprefix('self.')}") as raised:
        train(make_trainer, made, kind)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", [GRPOTrainer, RLOOTrainer])
def test_a_renamed_generate(make_trainer: Any, monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    made = rewritten(kind, "_generate(", "_sample(", monkeypatch)
    with pytest.raises(HostError, match="has no method _generate,"):
        train(make_trainer, made, kind)


@pytest.mark.parametrize("name", ["_save_optimizer_and_scheduler", "_load_optimizer_and_scheduler"])
def test_a_renamed_method_of_checkpoints(
    make_trainer: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    trainer = make_trainer()
    for owner in (one for one in GRPOTrainer.__mro__ if name in vars(one)):
        monkeypatch.delattr(owner, name)
    with pytest.raises(HostError, match=f"has no method {name}"):
        attach(trainer, {"algorithms": ()})


FIELDS = [
    (GRPOTrainer, "importance_sampling_ratio", True),
    (GRPOTrainer, "sampling_per_token_logps", True),
    (GRPOTrainer, "num_items_in_batch", False),
    (GRPOTrainer, "old_per_token_logps", True),
    (GRPOTrainer, "completion_mask", False),
    (RLOOTrainer, "old_logps", False),
    (RLOOTrainer, "prompt_mask", False),
]


@pytest.mark.parametrize(("kind", "field", "vllm"), FIELDS)
def test_a_renamed_field_of_the_batch(
    make_trainer: Any, monkeypatch: pytest.MonkeyPatch, kind: type, field: str, vllm: bool
) -> None:
    made = rewritten(kind, f'"{field}"', f'"{field}_renamed"', monkeypatch)
    with pytest.raises(HostError, match=f"batches without .*{field}") as raised:
        train(make_trainer, made, kind, vllm)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", [GRPOTrainer, RLOOTrainer])
def test_a_batch_of_other_prompts_than_generate_returns(
    make_trainer: Any, monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    one, other = (
        "torch.tensor(ids) for ids in prompt_ids",
        "torch.tensor(ids[1:]) for ids in prompt_ids",
    )
    made = rewritten(kind, one, other, monkeypatch)
    with pytest.raises(HostError, match="trains on other prompts than _generate returns"):
        train(make_trainer, made, kind)


@pytest.mark.parametrize(("kind", "vllm"), [(GRPOTrainer, True), (RLOOTrainer, False)])
def test_old_log_probs_of_something_else(make_trainer: Any, kind: type, vllm: bool) -> None:
    trainer = make_trainer(kind, max_steps=1)
    if vllm:
        use_vllm(trainer)
    original, calls = trainer._get_per_token_logps_and_entropies, []

    def other(model: Any, ids: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        calls.append(len(ids))
        result = original(model, ids, *args, **kwargs)
        return result if len(calls) > 1 else (result[0] - 1.0, *result[1:])

    trainer._get_per_token_logps_and_entropies = other
    settings = {"algorithms": (), "question_id_column": "id"}
    attach(trainer, settings, plugins={"templates": FixedTemplates(HINTS)})
    with pytest.raises(HostError, match="old log-probs that are not those of the question"):
        trainer.train()


class WideLogps(GRPOTrainer):
    """Return log-probs as wide as completions plus the longest left padding, as Unsloth does."""

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, **kwargs: Any
    ) -> Any:
        result = super()._get_per_token_logps_and_entropies(
            model, input_ids, attention_mask, logits_to_keep, **kwargs
        )
        prompts = attention_mask[:, :-logits_to_keep]
        left = int((prompts == 0).sum(1).max())
        wide = torch.nn.functional.pad(result[0], (left, 0))
        # The real one's loss knows its own width.
        return (wide if not torch.is_grad_enabled() else result[0], *result[1:])

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        width = inputs["completion_ids"].shape[1]
        old = inputs.get("old_per_token_logps")
        if old is not None:
            inputs = {**inputs, "old_per_token_logps": old[:, -width:]}
        return super()._compute_loss(model, inputs)


UNEQUAL = {
    f"q{n}": [f"{right_hint(task)} " + "note please " * n, ""] for n, task in enumerate(TASKS)
}


def wide(make_trainer: Any, **settings: Any) -> Any:
    short = [{**row, "prompt": row["prompt"][:1]} for row in rows()]
    for n, row in enumerate(short):
        content = "please " * n + row["prompt"][0]["content"]
        row["prompt"] = [{"role": "user", "content": content}]
    options = {"steps_per_generation": 2, "num_iterations": 2, "max_steps": 4}
    trainer = make_trainer(WideLogps, like=GRPOTrainer, dataset=short, **options)
    attach(
        trainer,
        {"algorithms": (), "question_id_column": "id", **settings},
        plugins={"templates": FixedTemplates(UNEQUAL)},
    )
    return trainer


def test_log_probs_of_another_width_are_not_compared(make_trainer: Any) -> None:
    trainer = wide(make_trainer)
    trainer.train()
    assert trainer.state.global_step == 4


def test_log_probs_of_another_width_cannot_be_corrected(make_trainer: Any) -> None:
    trainer = wide(make_trainer, distill_forward=True)
    with pytest.raises(HostError, match=r"WideLogps has \d+ log-probs for \d+ tokens") as raised:
        trainer.train()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", [GRPOTrainer, RLOOTrainer])
def test_rows_that_a_subclass_replaces(make_trainer: Any, kind: Any) -> None:
    class Replaying(kind):  # type: ignore[misc]
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            output = super()._generate_and_score_completions(inputs)
            if self.state.global_step == 2:
                for name, value in output.items():
                    if torch.is_tensor(value) and value.dim() and len(value) == len(inputs):
                        output[name] = value.flip(0)
            return output

    trainer = make_trainer(Replaying, max_steps=4, like=kind)
    settings = {"algorithms": (), "question_id_column": "id"}
    attach(trainer, settings, plugins={"templates": FixedTemplates(HINTS)})
    with pytest.raises(HostError, match="trains on other rows than it generated") as raised:
        trainer.train()
    assert trainer.state.global_step == 2
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("config", "random"),
    [
        (OPTConfig(), True),
        (OPTConfig(dropout=0.0), False),
        (LlamaConfig(attention_dropout=0.1), True),
        (LlamaConfig(id2label={0: "drop"}), False),
        (GPTNeoXConfig(), False),
        (GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0), False),
        (GPT2Config(), True),
        (Gemma3Config(text_config={"attention_dropout": 0.1}), True),
        (Gemma3Config(), False),
        (None, False),
    ],
)
def test_dropout_that_is_a_number_in_the_configuration_is_seen(config: Any, random: bool) -> None:
    model = torch.nn.Module()
    model.config = config
    assert _draws_at_random(model) == random


@pytest.mark.parametrize("name", ["_generate", "_calculate_rewards"])
def test_a_round_that_goes_past_a_wrapped_method(make_trainer: Any, name: str) -> None:
    """A patch that holds the class's own method may do so."""
    trainer = make_trainer(max_steps=1)
    settings = {"algorithms": (), "question_id_column": "id"}
    attach(trainer, settings, plugins={"templates": FixedTemplates(HINTS)})

    class Patch(type(trainer.callback_handler.callbacks[0])):  # type: ignore[misc]
        def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
            own = getattr(type(trainer), name)
            setattr(trainer, name, lambda *given: own(trainer, *given))

    trainer.add_callback(Patch())
    with pytest.raises(HostError, match=f"without calling {name}, so the plan"):
        trainer.train()
