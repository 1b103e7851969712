"""TRL's bare GRPOTrainer, the same for every arm."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from prompt_coevo.demo.arms import GROUP_SIZE, ROLLOUTS_PER_STEP
from prompt_coevo.demo.digits import MAX_COMPLETION, Asked, chat, spell
from prompt_coevo.lines import JSON
from prompt_coevo.placement import Message

if TYPE_CHECKING:
    from peft import PeftConfig
    from trl import GRPOTrainer


def build_trainer(
    base: Path,
    tasks: Sequence[Asked],
    grade: Callable[[str, str], float],
    *,
    out: Path,
    seed: int,
    epochs: int,
    learning_rate: float,
    columns: Mapping[str, Sequence[str]] | None = None,
    changes: Mapping[str, JSON] | None = None,
    adapter: PeftConfig | None = None,
) -> GRPOTrainer:
    """Build a trainer for these questions.

    `base`: the policy's folder. `grade`: the reward of a completion, given the right answer. `columns`:
    further dataset columns, one value per question. `changes`: overrides of the trainer's configuration.
    """
    import datasets
    import torch
    import transformers
    import trl

    _silence(datasets, transformers)
    rows = [{"prompt": chat(task.question), "answer": spell(task.answer)} for task in tasks]
    dataset = datasets.Dataset.from_list(rows)
    for name, values in (columns or {}).items():
        dataset = dataset.add_column(name, list(values))

    def graded(
        completions: Sequence[Sequence[Message]], answer: Sequence[str], **_: object
    ) -> list[float]:
        return [
            grade(one[0]["content"], truth) for one, truth in zip(completions, answer, strict=True)
        ]

    common = trainer_values(out, seed, epochs, learning_rate)
    trainer = trl.GRPOTrainer(
        model=transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
        reward_funcs=graded,
        args=trl.GRPOConfig(**{**common, "beta": 0.0, **(changes or {})}),
        train_dataset=dataset,
        processing_class=transformers.AutoTokenizer.from_pretrained(base),
        peft_config=adapter,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def trainer_values(out: Path, seed: int, epochs: int, learning_rate: float) -> dict[str, JSON]:
    """Return what all trainers have in common, by the names of TRL's configurations."""
    return {
        "output_dir": str(out),
        "seed": seed,
        "num_train_epochs": epochs,
        "per_device_train_batch_size": ROLLOUTS_PER_STEP,
        "num_generations": GROUP_SIZE,
        "max_completion_length": MAX_COMPLETION,
        "temperature": 1.0,
        "learning_rate": learning_rate,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": 5,
        "adam_beta2": 0.95,
        "gradient_checkpointing": False,  # pointless for so small a policy: it would only cost time
        "use_cpu": True,
        "bf16": False,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "logging_steps": 1,
    }


def quieten() -> None:
    """Turn off telemetry, the hub and the libraries' progress bars; the demo shows its own."""
    os.environ.update(
        CI="1", HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", HF_HUB_DISABLE_PROGRESS_BARS="1"
    )
    warnings.filterwarnings("ignore", category=FutureWarning)
    logging.getLogger("trl").setLevel(logging.ERROR)


def _silence(datasets: ModuleType, transformers: ModuleType) -> None:
    datasets.disable_progress_bars()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
