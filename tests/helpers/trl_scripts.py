"""Run users' scripts in this process on a CPU: unchanged, and with one of our lines added.

The scripts' folder is laid out like the hub, so that model and dataset names are paths. The trainers'
configs get values for a small machine where a script gives none. Samples are scripted and do not depend
on the prompt, so a run with templates must end with the weights of the bare script; otherwise its loss is
not the trainer's own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
import trl
from transformers import GenerationMixin, Trainer

from helpers.byte_model import byte_model, qwen3_tokenizer
from prompt_coevo.adapters.trl import generation

SCRIPTS = Path(__file__).parents[1] / "trl" / "scripts"
MODELS = ("Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen3-0.6B")
SUMS = [f"What is {n} and {7 - n}?" for n in range(4)]
"""The answer to each is 7, because what is sampled does not depend on the question."""
DATASETS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "trl-lib/DeepMath-103K": [
        {"prompt": [{"role": "user", "content": one}], "solution": "$7$"} for one in SUMS
    ],
    "AI-MO/NuminaMath-TIR": [
        {"problem": f"{one} {n}", "solution": "It is \\boxed{7}.", "messages": []}
        for n in range(40)
        for one in SUMS
    ],
    "openai/gsm8k": [{"question": one, "answer": "Count.\n#### 7"} for one in SUMS],
    "trl-lib/ultrafeedback-prompt": [
        {"prompt": [{"role": "user", "content": one}]} for one in SUMS
    ],
    "qgallouedec/biogrid_qa": [
        {"question": f"Does the gene {n} bind?", "answer": "Yes"} for n in range(4)
    ],
}
SMALL: Mapping[str, Any] = {
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "report_to": "none",
    "save_strategy": "no",
    "logging_steps": 1,
    "disable_tqdm": True,
}
"""Values for a CPU where a script gives none."""

TEMPLATE = "Count on your fingers."
LINE = 'reflection="openai/gpt-5"'
"""The least that our line must contain."""
RIGHT = "<think>\nI count.\n</think>\nIt is \\boxed{7}, <answer>7</answer>."
WRONG = (
    "<think>\nI guess.\n</think>\nIt is \\boxed{1}, <answer>1</answer>.",
    "It is \\boxed{22}.",
    "I do not know; may I have another one, please?",
)
Said = Callable[[int, int], str]
"""The policy's answer, by the numbers of the sampling call and of the row."""


def one_is_right(call: int, row: int) -> str:
    """Answer one of eight right, so that a question is hard and its group has a gradient."""
    return RIGHT if row % 8 == call % 8 else WRONG[(call + row) % 3]


def lay_out(folder: Path) -> None:
    """Write the models and datasets under their names."""
    tokenizer = qwen3_tokenizer()
    for name in MODELS:
        byte_model(tokenizer).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    for name, rows in DATASETS.items():
        (folder / name).mkdir(parents=True)
        for split in ("train", "test"):
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / name / f"{split}.jsonl").write_text(lines, "utf-8")


@dataclass
class Ran:
    """A script that ran to its end: its trainer, and the prompts that were sampled under."""

    trainer: Any = None
    prompts: list[str] = field(default_factory=list)

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        return dict(self.trainer.model.state_dict())

    def metric(self, name: str) -> list[float]:
        """Return the values of one of our metrics in TRL's log."""
        log = self.trainer.state.log_history
        return [one[f"coevo/{name}"] for one in log if f"coevo/{name}" in one]

    def logged(self, name: str) -> list[float]:
        return [one[name] for one in self.trainer.state.log_history if name in one]


def with_line(text: str, settings: str) -> str:
    """Return the script with one more line before the one that trains."""
    found = [line for line in text.splitlines() if line.lstrip().startswith("trainer.train(")]
    assert len(found) == 1, "a script trains once"
    indent = found[0][: -len(found[0].lstrip())] if found[0] != found[0].lstrip() else ""
    ours = f"import prompt_coevo.adapters.trl as coevo; coevo.attach(trainer, {settings})"
    return text.replace(found[0], f"{indent}{ours}\n{found[0]}")


def run_script(text: str, arguments: Sequence[str] = (), said: Said = one_is_right) -> Ran:
    """Run a script's text in the current folder."""
    ran = Ran()
    with pytest.MonkeyPatch.context() as patch, _scripted(said, ran):
        patch.setattr(sys, "argv", ["script.py", *arguments])
        for kind in (trl.GRPOConfig, trl.RLOOConfig):
            patch.setattr(kind, "__init__", _for_a_small_machine(kind.__init__))
        torch.manual_seed(0)
        exec(compile(text, "script.py", "exec"), {"__name__": "__main__"})
    return ran


def _for_a_small_machine(init: Callable[..., None]) -> Callable[..., None]:
    def small(self: Any, *args: Any, **given: Any) -> None:
        init(self, *args, **{**SMALL, **given})

    return small


@contextmanager
def _scripted(said: Said, ran: Ran) -> Iterator[None]:
    calls = iter(range(sys.maxsize))
    init = Trainer.__init__

    def generate(model: Any, input_ids: torch.Tensor, **_: Any) -> torch.Tensor:
        tokenizer, call = ran.trainer.processing_class, next(calls)
        ran.prompts += tokenizer.batch_decode(input_ids)
        texts = [f"{said(call, row)}{tokenizer.eos_token}" for row in range(len(input_ids))]
        completions = tokenizer(texts, padding=True, padding_side="right", return_tensors="pt")
        return torch.cat([input_ids, completions["input_ids"]], dim=1)

    def recorded(trainer: Any, *args: Any, **kwargs: Any) -> None:
        ran.trainer = trainer
        init(trainer, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GenerationMixin, "generate", generate)
        patch.setattr(generation, "punish_nothing", lambda output, rows: None)
        patch.setattr(Trainer, "__init__", recorded)
        yield


def check_that_it_works(without: str, with_ours: str, **options: Any) -> Ran:
    """Check that questions are hard, the model is called, templates are placed where a message has them,
    and the final weights equal the bare script's if failures under templates are punished."""
    bare, ran = run_script(without, **options), run_script(with_ours, **options)
    assert max(ran.metric("hard_samples")) > 0
    assert ran.metric("reflection_calls")[-1] > 0
    assert max(ran.metric("templated_fraction")) > 0
    under = [prompt for prompt in ran.prompts if TEMPLATE in prompt]
    assert under
    assert all(f"<|im_start|>user\n{TEMPLATE}" in one for one in under if "<|im_start|>" in one)
    assert not any(TEMPLATE in prompt for prompt in bare.prompts)
    assert len(ran.prompts) == len(bare.prompts)
    assert bare.logged("reward")
    assert ran.logged("reward") == bare.logged("reward")
    assert ran.weights.keys() == bare.weights.keys()
    assert all(torch.equal(ran.weights[name], bare.weights[name]) for name in bare.weights)
    return ran
