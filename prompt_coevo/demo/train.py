"""One arm of the demo, trained by TRL's own GRPOTrainer."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prompt_coevo.algorithms.p2o.cover import TemplateCover
from prompt_coevo.algorithms.p2o.search import SearchResult
from prompt_coevo.demo.arms import arm
from prompt_coevo.demo.model import base_policy_path
from prompt_coevo.demo.results import ArmResult, Cracked, Scores
from prompt_coevo.demo.splits import Splits, make_splits
from prompt_coevo.demo.world import Asked, World, reward, spell
from prompt_coevo.markers import hookimpl
from prompt_coevo.placement import question_text
from prompt_coevo.types import Question

GROUP_SIZE = 6
QUESTIONS_PER_STEP = 32


@dataclass(frozen=True)
class Job:
    """An arm with a seed, and how long to train it."""

    arm: str
    seed: int
    out: Path
    questions: int = 512
    held_out: int = 512
    epochs: int = 8
    evaluate_every: int = 1
    reflection_lm: str | None = None
    api_base: str | None = None

    @property
    def steps(self) -> int:
        """Weight updates; the last, incomplete batch of an epoch is not trained on."""
        return self.epochs * (self.questions // QUESTIONS_PER_STEP)


Report = Callable[[int, Scores | None], None]


def train(job: Job, report: Report) -> ArmResult:
    """Train one arm and evaluate it before every `evaluate_every`-th epoch and at the end.

    `report(step, scores)` is called after every step (scores None) and every evaluation.
    """
    quieten()
    import torch
    import transformers

    from prompt_coevo.adapters.trl import CoevoCallback
    from prompt_coevo.demo.evaluate import evaluate

    torch.manual_seed(job.seed)
    splits = make_splits(World(), job.seed, job.questions, job.held_out)
    trainer = _trainer(job, splits)
    curve: list[Scores] = []
    evaluating = 0.0

    def score() -> None:
        nonlocal evaluating
        started = time.monotonic()
        epoch = round(trainer.state.epoch or 0)
        text = _best_instruction(coevo)
        curve.append(evaluate(trainer.model, trainer.processing_class, splits, epoch, text))
        evaluating += time.monotonic() - started
        report(trainer.state.global_step, curve[-1])

    class Watch(transformers.TrainerCallback):  # type: ignore[misc]
        def on_epoch_begin(self, args: Any, state: Any, *rest: Any, **kwargs: Any) -> None:
            if round(state.epoch or 0) % job.evaluate_every == 0:
                score()

        def on_step_end(self, args: Any, state: Any, *rest: Any, **kwargs: Any) -> None:
            report(state.global_step, None)

    cracks = _Cracks()
    coevo: CoevoCallback | None = None
    trainer.add_callback(Watch())
    if arm(job.arm).coevolves:
        settings = arm(job.arm).settings(job.seed, job.reflection_lm, job.api_base)
        coevo = CoevoCallback(trainer, settings, plugins={"demo": cracks})
        trainer.add_callback(coevo)
    started = time.monotonic()
    trainer.train()
    seconds = time.monotonic() - started - evaluating
    score()
    metrics = coevo.engine.metrics() if coevo and coevo.engine else {}
    return ArmResult(
        arm=job.arm,
        seed=job.seed,
        curve=tuple(curve),
        train_rollouts=job.steps * QUESTIONS_PER_STEP * GROUP_SIZE,
        search_rollouts=int(
            metrics.get("coevo/search_rollouts", 0) + metrics.get("coevo/verify_rollouts", 0)
        ),
        seconds=seconds,
        cracked=cracks.described(coevo.policy.question) if coevo else (),
        instruction=_best_instruction(coevo),
    )


def _best_instruction(coevo: Any) -> str | None:
    instruction = coevo.engine.evaluation_instruction() if coevo and coevo.engine else None
    return instruction.text if instruction else None


def _trainer(job: Job, splits: Splits) -> Any:
    return build_trainer(
        base_policy_path(),
        splits.train,
        reward,
        out=job.out,
        seed=job.seed,
        epochs=job.epochs,
        learning_rate=2e-4,
    )


def build_trainer(
    base: Path,
    tasks: Sequence[Asked],
    grade: Callable[[str, str], float],
    *,
    out: Path,
    seed: int,
    epochs: int,
    learning_rate: float,
) -> Any:
    """The bare GRPOTrainer, the same for every arm.

    `base` is the policy's folder; `grade` the reward of a completion, given the right answer.
    """
    import datasets
    import torch
    import transformers
    import trl

    from prompt_coevo.demo.evaluate import MAX_COMPLETION, chat

    _silence(datasets, transformers)
    rows = [{"prompt": chat(task), "answer": spell(task.answer)} for task in tasks]

    def graded(completions: Sequence[Any], answer: Sequence[str], **_: Any) -> list[float]:
        return [
            grade(one[0]["content"], truth) for one, truth in zip(completions, answer, strict=True)
        ]

    trainer = trl.GRPOTrainer(
        model=transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
        reward_funcs=graded,
        args=trl.GRPOConfig(
            output_dir=str(out),
            seed=seed,
            num_train_epochs=epochs,
            per_device_train_batch_size=QUESTIONS_PER_STEP * GROUP_SIZE,
            num_generations=GROUP_SIZE,
            max_completion_length=MAX_COMPLETION,
            temperature=1.0,
            beta=0.0,
            learning_rate=learning_rate,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=5,
            adam_beta2=0.95,
            use_cpu=True,
            bf16=False,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            logging_steps=1,
        ),
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=transformers.AutoTokenizer.from_pretrained(base),
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


class _Cracks:
    """A plugin that remembers which templates cracked which questions."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    @hookimpl
    def coevo_after_templates_assigned(
        self, cover: TemplateCover | None, result: SearchResult
    ) -> None:
        """The best template of each search and a dev question that needs it."""
        pool = result.pool
        for row in np.argsort(-pool.scores.mean(axis=1), kind="stable"):
            solved_by_it_alone = np.flatnonzero((pool.scores[row] >= 1) & (pool.scores[0] < 1))
            if len(solved_by_it_alone) and pool.candidates[row].text not in self._found:
                question_id = pool.sample_ids[int(solved_by_it_alone[0])]
                self._found[pool.candidates[row].text] = question_id
                return

    def described(self, question: Callable[[str], Question]) -> tuple[Cracked, ...]:
        return tuple(
            Cracked(text, question_text(question(key).prompt), question(key).ground_truth or "")
            for text, key in self._found.items()
        )


def quieten() -> None:
    """No telemetry, no hub, no progress bars of libraries: the demo shows its own."""
    os.environ.update(
        CI="1", HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", HF_HUB_DISABLE_PROGRESS_BARS="1"
    )
    warnings.filterwarnings("ignore", category=FutureWarning)
    logging.getLogger("trl").setLevel(logging.ERROR)


def _silence(datasets: Any, transformers: Any) -> None:
    datasets.disable_progress_bars()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
