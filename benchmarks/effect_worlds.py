"""Define the worlds of the effect benchmarks: policy, questions, rewards, teacher, arms and scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import effect_language as language
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from prompt_coevo.demo import splits as facts_splits
from prompt_coevo.demo import world as facts
from prompt_coevo.demo.digits import Asked, spell
from prompt_coevo.demo.evaluate import rewards, undisturbed
from prompt_coevo.demo.teacher import FactsTeacher
from prompt_coevo.demo.trainer import trainer_values
from prompt_coevo.demo.unnamed.arms import POINTS
from prompt_coevo.demo.unnamed.tasks import Questions
from prompt_coevo.demo.unnamed.teachers import teacher
from prompt_coevo.demo.world import base_path
from worlds.pairs.splits import make_splits
from worlds.pairs.teacher import Teacher
from worlds.pairs.world import World, base_policy_path, reward

CoevoSettings: TypeAlias = Mapping[str, Any]
Scores: TypeAlias = dict[str, Any]

FACTS_BASE: Final = base_path(facts.World())
FACTS_LEARNING_RATE: Final = 4e-4
LANGUAGE: Final = ("grpo", "stream")
"""The arms of the language model's tier that are compared."""
WAVES: Final = {"preset": "demo-p2o", "p2o": {"calls_per_hard": "unlimited"}}


def stream(**changes: Any) -> dict[str, Any]:
    """Return the stream's settings in the world of many facts."""
    return {"stream": {"tau": 0.01, **changes}, "ground_truth_column": "answer"}


@dataclass(frozen=True)
class EffectWorld:
    """Hold what a trainer's benchmark needs to know of a world."""

    base: Callable[[Path], Path]
    """Given an empty folder, the base policy's folder."""

    reward: str
    """The name of its reward function in the tests' helpers."""

    trainer: Mapping[str, Any]
    """The training settings, by TRL's names, without the run's folder, seed and length."""

    arms: Mapping[str, CoevoSettings | None]
    """Settings by name; without any it is the bare trainer."""

    shown: Sequence[str]
    """The scores in the table."""

    training: Callable[[int, int], Iterable[tuple[str, str]]]
    """Seed and number to questions and their answers."""

    teacher: Callable[[int], Callable[[str], str]]
    """From the seed to the function that answers reflection prompts."""

    score: Callable[[Sequence[Path], int, int], Scores]
    """Folders of models, seed and number of training questions to scores without any template."""

    questions: int = 512
    epochs: int = 8
    points: int = 1
    """The number of models saved in a run, including the last."""

    about: Callable[[], Mapping[str, Any]] = dict
    """Further facts to store with a run."""


def _trainer(learning_rate: float) -> Mapping[str, Any]:
    return trainer_values(Path(), seed=0, epochs=0, learning_rate=learning_rate)


def _asked(tasks: Iterable[Asked]) -> Iterable[tuple[str, str]]:
    return ((task.question, spell(task.answer)) for task in tasks)


def _last(folders: Sequence[Path], base: Path) -> tuple[Any, Any]:
    """Load the last model, and the tokenizer of the first."""
    model = AutoModelForCausalLM.from_pretrained(folders[-1], dtype=torch.float32)
    return model, AutoTokenizer.from_pretrained(base)


def score_facts(model: Any, tokenizer: Any, held_out: Sequence[facts.Task]) -> dict[str, float]:
    """Return the greedy accuracy without any template, by kind of word."""
    with undisturbed(model):
        found = rewards(model, tokenizer, held_out, grade=facts.reward)
    chosen = {kind: [task.kind == kind for task in held_out] for kind in facts.COUNTS}
    return {kind: round(float(found[rows].mean()), 4) for kind, rows in chosen.items()}


def _score_demo(folders: Sequence[Path], seed: int, questions: int) -> Scores:
    """Return greedy scores, and how many training questions six sampled answers all get wrong."""
    splits = make_splits(World(), seed, questions, 512)
    model, tokenizer = _last(folders, base_policy_path())
    with undisturbed(model):
        score = partial(rewards, model, tokenizer, grade=reward)
        same = score(splits.same)
        sampled = score([task for task in splits.train for _ in range(6)], temperature=1.0)
        return {
            "all": float(same.mean()),
            "hard": float(same[[task.kind == "hard" for task in splits.same]].mean()),
            "unseen_pairs": float(score(splits.unseen_pairs).mean()),
            "longer": float(score(splits.longer).mean()),
            "hard_left": int((sampled.reshape(-1, 6).sum(axis=1) == 0).sum()),
        }


def _unnamed(draw: int) -> EffectWorld:
    """Return the language model's world, with a split of its questions."""
    return EffectWorld(
        base=language.policy,
        reward="unnamed",
        trainer=language.TRAINER,
        arms={name: language.ARMS[name].values for name in LANGUAGE},
        shown=tuple(language.GROUPS),
        training=lambda seed, count: language.training(draw, count),
        teacher=lambda seed: teacher("reader", seed),
        score=lambda folders, *_: language.score(draw, folders),
        questions=len(Questions.unnamed(draw).training),
        epochs=4,
        points=POINTS,
        about=lambda: language.about(draw),
    )


WORLDS: Final[Mapping[str, EffectWorld]] = {
    "demo": EffectWorld(
        base=lambda _: base_policy_path(),
        reward="demo",
        trainer=_trainer(2e-4),
        arms={
            "grpo": None,
            "p2o": {"preset": "demo-p2o"},
            "forward": {"preset": "demo-p2o", "distill_forward": True},
        },
        shown=("all", "hard", "unseen_pairs"),
        training=lambda seed, count: _asked(make_splits(World(), seed, count, 512).train),
        teacher=lambda seed: Teacher(seed=seed),
        score=_score_demo,
    ),
    "facts": EffectWorld(
        base=lambda _: FACTS_BASE,
        reward="facts",
        trainer=_trainer(FACTS_LEARNING_RATE),
        arms={
            "grpo": None,
            "p2o": WAVES,
            "stream": stream(),
        },
        shown=tuple(facts.COUNTS),
        training=lambda seed, count: _asked(
            facts_splits.training_tasks(facts.World(), seed, count)
        ),
        teacher=lambda seed: FactsTeacher(seed=seed),
        score=lambda folders, *_: score_facts(
            *_last(folders, FACTS_BASE), facts_splits.held_out_tasks(facts.World())
        ),
    ),
    "unnamed": _unnamed(0),
    "unnamed-1": _unnamed(1),
}
