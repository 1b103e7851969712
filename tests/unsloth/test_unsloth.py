"""Check a script on the trainer that Unsloth writes: `python dev.py nox -s unsloth`, not in the test
command.

Unsloth's models and kernels need a GPU. On a CPU its import works, and so does the trainer that it
generates from TRL's, on a plain model; switching a model between training and inference does nothing
there.
"""

from __future__ import annotations

import os
import tempfile

os.environ.update(
    CI="1",
    HF_HUB_OFFLINE="1",
    UNSLOTH_DISABLE_STATISTICS="1",
    UNSLOTH_COMPILE_LOCATION=tempfile.mkdtemp(prefix="unsloth"),
    UNSLOTH_ALLOW_CPU="1",
    TORCHDYNAMO_DISABLE="1",  # minutes of compiling for a model of one layer
)

from prompt_coevo.adapters.trl import attach  # isort: skip  # before Unsloth: the order must not matter
import unsloth  # isort: skip

os.environ["UNSLOTH_ALLOW_CPU"] = "0"

from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import trl
from transformers import AutoModelForCausalLM, AutoTokenizer
from unsloth.models import rl

from helpers.trl_hub import as_on_the_hub, hub, template_server
from helpers.trl_scripts import LINE, check_that_it_works, with_line

__all__ = ["as_on_the_hub", "attach", "hub", "template_server"]
NAMED = f'{LINE}, success={{"reward": "check_answer", "low": -0.5, "high": 3.0}}'

rl._patch_trl_rl_trainers("grpo_trainer")
torch.set_num_threads(1)


def plain(model_name: str, **_: Any) -> tuple[Any, Any]:
    model = AutoModelForCausalLM.from_pretrained(model_name, dtype=torch.float32)
    return model, AutoTokenizer.from_pretrained(model_name)


def with_lora(model: Any, r: int, target_modules: list[str], **_: Any) -> Any:
    return peft.get_peft_model(model, peft.LoraConfig(r=r, target_modules=target_modules))


@pytest.fixture(autouse=True)
def _plain_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsloth.FastLanguageModel, "from_pretrained", plain)
    monkeypatch.setattr(unsloth.FastLanguageModel, "get_peft_model", with_lora)
    for name in ("for_training", "for_inference"):
        monkeypatch.setattr(torch.nn.Module, name, lambda model, *_, **__: model, raising=False)


@pytest.mark.usefixtures("as_on_the_hub")
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"num_train_epochs=3": "num_train_epochs=3, gradient_accumulation_steps=2"},
        {"num_train_epochs=3": "num_train_epochs=3, steps_per_generation=2, num_iterations=2"},
    ],
    ids=["as it is", "accumulation", "several updates of a round"],
)
def test_the_notebook_works(change: dict[str, str]) -> None:
    text = (Path(__file__).parent / "notebook.py").read_text("utf-8")
    for there, instead in change.items():
        assert there in text
        text = text.replace(there, instead)
    ran: Any = check_that_it_works(text, with_line(text, NAMED))
    assert type(ran.trainer).__name__ == trl.GRPOTrainer.__name__ == "UnslothGRPOTrainer"
