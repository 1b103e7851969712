"""Train on worked solutions: with hints, by TRL's SDFT and by TRL's SFT, as one could who has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import datasets
from language_solutions import solution
from trl import SFTConfig, SFTTrainer
from trl.experimental.sdft import SDFTConfig, SDFTTrainer

from prompt_coevo.demo.digits import chat
from prompt_coevo.demo.job import Job
from prompt_coevo.demo.unnamed.arms import QUESTIONS_PER_STEP
from prompt_coevo.demo.unnamed.load import load_model, load_tokenizer
from prompt_coevo.demo.unnamed.tasks import Questions
from prompt_coevo.demo.unnamed.train import build_trainer, values_of

_OF_SAMPLES: Final = ("num_generations", "max_completion_length", "temperature", "beta")
"""Values for trainers that sample and reward."""


def with_solutions(job: Job, questions: Questions) -> Any:
    """Build the usual trainer, with a column `solution` beside every question."""
    trainer = build_trainer(job, questions)
    told = [solution(task) for task in questions.training]
    trainer.train_dataset = trainer.train_dataset.add_column("solution", told)
    return trainer


def sdft(job: Job, questions: Questions) -> Any:
    """Build TRL's SDFTTrainer with its defaults: the base model, shown the question and its solution,
    teaches the policy on the policy's own samples."""
    values = values_of(job, questions)
    del values["beta"]
    parts = _parts(
        job,
        [
            {"prompt": chat(task.question), "privileged_context": solution(task)}
            for task in questions.training
        ],
    )
    args = SDFTConfig(**values)
    # Fewer than the default only for a test's vocabulary.
    args.distillation_topk = min(args.distillation_topk, parts["model"].config.vocab_size)
    return SDFTTrainer(args=args, **parts)


def sft(job: Job, questions: Questions) -> Any:
    """Build TRL's SFTTrainer with as many steps, each on as many questions, and no samples."""
    values = {
        name: value for name, value in values_of(job, questions).items() if name not in _OF_SAMPLES
    }
    values["per_device_train_batch_size"] = QUESTIONS_PER_STEP
    rows = [
        {
            "prompt": chat(task.question),
            "completion": [{"role": "assistant", "content": solution(task)}],
        }
        for task in questions.training
    ]
    return SFTTrainer(args=SFTConfig(**values), **_parts(job, rows))


def _parts(job: Job, rows: list[dict[str, Any]]) -> Mapping[str, Any]:
    return {
        "processing_class": load_tokenizer(job.base),
        "model": load_model(job.base),
        "train_dataset": datasets.Dataset.from_list(rows),
    }
