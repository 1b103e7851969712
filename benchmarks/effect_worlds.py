"""The worlds that the effect benchmarks train in: policy, questions, rewards, teacher, arms and scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from prompt_coevo.demo import splits as facts_splits
from prompt_coevo.demo import world as facts
from prompt_coevo.demo.digits import Asked
from prompt_coevo.demo.evaluate import rewards, undisturbed
from prompt_coevo.demo.teacher import FactsTeacher
from prompt_coevo.demo.world import base_path
from worlds.pairs.splits import make_splits
from worlds.pairs.teacher import Teacher
from worlds.pairs.world import World, base_policy_path, reward

CoevoSettings: TypeAlias = Mapping[str, Any]
Scores: TypeAlias = dict[str, Any]

FACTS_BASE: Final = base_path(facts.World())
FACTS_LEARNING_RATE: Final = 4e-4
WAVES: Final = {"preset": "demo-p2o", "p2o": {"calls_per_hard": "unlimited"}}


def stream(**changes: Any) -> dict[str, Any]:
    """The settings of the stream in the world of many facts."""
    return {"stream": {"tau": 0.01, **changes}, "ground_truth_column": "answer"}


@dataclass(frozen=True)
class EffectWorld:
    """What a trainer's benchmark needs to know of a world."""

    base: Path
    """The base policy's folder."""

    reward: str
    """The name of its reward function in the tests' helpers."""

    learning_rate: float
    arms: Mapping[str, CoevoSettings | None]
    """Settings by name; without any it is the bare trainer."""

    shown: Sequence[str]
    """The scores in the table."""

    training: Callable[[int, int], Sequence[Asked]]
    """Seed and number to questions."""

    teacher: Callable[[int], Callable[[str], str]]
    """Seed to what answers reflection prompts."""

    score: Callable[[Any, Any, int, int], Scores]
    """Model, tokenizer, seed and number of training questions to greedy scores without any template."""


def score_facts(model: Any, tokenizer: Any, held_out: Sequence[facts.Task]) -> dict[str, float]:
    """Greedy accuracy without any template, by kind of word."""
    with undisturbed(model):
        found = rewards(model, tokenizer, held_out, grade=facts.reward)
    chosen = {kind: [task.kind == kind for task in held_out] for kind in facts.COUNTS}
    return {kind: round(float(found[rows].mean()), 4) for kind, rows in chosen.items()}


def _score_demo(model: Any, tokenizer: Any, seed: int, questions: int) -> Scores:
    """Greedy, and how many training questions six sampled answers all get wrong."""
    splits = make_splits(World(), seed, questions, 512)
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


WORLDS: Final[Mapping[str, EffectWorld]] = {
    "demo": EffectWorld(
        base=base_policy_path(),
        reward="demo",
        learning_rate=2e-4,
        arms={
            "grpo": None,
            "p2o": {"preset": "demo-p2o"},
            "forward": {"preset": "demo-p2o", "distill_forward": True},
        },
        shown=("all", "hard", "unseen_pairs"),
        training=lambda seed, count: make_splits(World(), seed, count, 512).train,
        teacher=lambda seed: Teacher(seed=seed),
        score=_score_demo,
    ),
    "facts": EffectWorld(
        base=FACTS_BASE,
        reward="facts",
        learning_rate=FACTS_LEARNING_RATE,
        arms={
            "grpo": None,
            "waves": WAVES,
            "stream": stream(),
        },
        shown=tuple(facts.COUNTS),
        training=lambda seed, count: facts_splits.training_tasks(facts.World(), seed, count),
        teacher=lambda seed: FactsTeacher(seed=seed),
        score=lambda model, tokenizer, *_: score_facts(
            model, tokenizer, facts_splits.held_out_tasks(facts.World())
        ),
    ),
}
