"""Train a real language model with TRL's own GRPOTrainer on questions that do not say what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import datasets
import torch
import transformers
import trl

from prompt_coevo.demo.digits import chat
from prompt_coevo.demo.job import Job
from prompt_coevo.demo.results import ArmResult, Report
from prompt_coevo.demo.trainer import quieten
from prompt_coevo.demo.unnamed.arms import POINTS, ROLLOUTS_PER_STEP
from prompt_coevo.demo.unnamed.held_out import HeldOut
from prompt_coevo.demo.unnamed.load import load_model, load_tokenizer
from prompt_coevo.demo.unnamed.tasks import Questions
from prompt_coevo.demo.unnamed.teachers import TeacherName, drawing, teacher
from prompt_coevo.demo.unnamed.values import trainer_values
from prompt_coevo.demo.watch import counting, run
from prompt_coevo.machine import computes_bfloat16
from prompt_coevo.placement import Message
from prompt_coevo.settings import Settings


def train(
    job: Job,
    report: Report,
    log: Callable[[dict[str, float]], None] | None = None,
    questions: Questions | None = None,
    build: Callable[[Job, Questions], trl.GRPOTrainer] | None = None,
    reserve: int = 0,
) -> ArmResult:
    """Train one arm. Evaluate it before, during and at the end.

    `job.base` is the model's folder, `job.draw` the split of the questions, unless `questions` is given.
    `job.reflection` may name a teacher, `{"teacher": "blind"}`, or the instructions that it draws from,
    `{"teacher": ["Write a poem.", ...]}`; the default is `reader`. `log` is called with the trainer's log
    at every step. `build` replaces `build_trainer`. Training leaves `reserve` rollouts of the
    budget for a search after it.
    """
    quieten()
    torch.manual_seed(job.seed)
    questions = questions or Questions.unnamed(job.draw)
    trainer = (build or build_trainer)(job, questions)
    trainer.remove_callback(transformers.PrinterCallback)
    if log is not None:
        trainer.add_callback(_Log(log))
    calls, exam = Counter[str](), HeldOut(questions)
    result = run(
        job,
        trainer,
        settings_of(job, calls),
        exam,
        report,
        calls=calls,
        reserve=reserve,
        per_step=ROLLOUTS_PER_STEP,
        points=POINTS,
    )
    first, last = exam.said[0], exam.said[-1]
    return replace(result, said={name: (first[name], last[name]) for name in first})


class _Log(transformers.TrainerCallback):  # type: ignore[misc]
    def __init__(self, tell: Callable[[dict[str, float]], None]) -> None:
        self._tell = tell

    def on_log(
        self, args: object, state: object, control: object, logs: dict[str, float], **_: object
    ) -> None:
        if "reward" in logs:
            self._tell(dict(logs))


def settings_of(job: Job, calls: Counter[str]) -> Settings | None:
    """Build the settings of a job's arm; None for the bare trainer."""
    if job.spec.values is None:
        return None
    reflection = dict(job.reflection or {})
    named: TeacherName | list[str] = reflection.pop("teacher", "reader")
    if not reflection.keys() & {"model", "function"}:
        answers = drawing(named, job.seed) if isinstance(named, list) else teacher(named, job.seed)
        reflection["function"] = counting(answers, calls)
    return Settings(seed=job.seed, reflection=reflection, **job.spec.values)


def of_this_machine(job: Job) -> dict[str, bool]:
    """Return whether to use the CPU, and whether to multiply in bfloat16: for a CPU the job may decide."""
    if torch.cuda.is_available():
        return {"use_cpu": False, "bf16": torch.cuda.is_bf16_supported(including_emulation=False)}
    return {"use_cpu": True, "bf16": computes_bfloat16() if job.bfloat16 is None else job.bfloat16}


def values_of(job: Job, questions: Questions) -> dict[str, Any]:
    """Return the values of the trainer's configuration."""
    return {**trainer_values(job, questions.most_tokens), **of_this_machine(job)}


def build_trainer(job: Job, questions: Questions) -> trl.GRPOTrainer:
    """Build TRL's GRPOTrainer, the same for every arm; on a GPU if there is one.

    Raises SettingsError for a model that cannot be loaded or has no chat template.
    """
    tokenizer = load_tokenizer(job.base)
    rows = [{"prompt": chat(task.question), "answer": task.answer} for task in questions.training]

    def graded(
        completions: Sequence[Sequence[Message]], answer: Sequence[str], **_: object
    ) -> list[float]:
        pairs = zip(completions, answer, strict=True)
        return [questions.reward(completion[0]["content"], truth) for completion, truth in pairs]

    return trl.GRPOTrainer(
        model=load_model(job.base),
        reward_funcs=graded,
        args=trl.GRPOConfig(**values_of(job, questions)),
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
    )
