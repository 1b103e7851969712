"""Define the arms of tier 2: the demo's with one change each, and third-party methods."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from prompt_coevo import Question
from prompt_coevo.demo.arms import ARMS as DEMO_ARMS
from prompt_coevo.demo.arms import (
    FIRST_INSTRUCTION,
    INSPO,
    Arm,
    inspo_arm,
    p2o_arm,
    stream_arm,
)
from prompt_coevo.demo.digits import SKILL_NAMES
from prompt_coevo.demo.rule_teacher import ERROR, TeacherKind
from prompt_coevo.demo.world import Task, World, clause
from prompt_coevo.placement import question_text


@dataclass(frozen=True)
class Studied:
    """An arm, and everything that differs in its runs."""

    spec: Arm
    course: str = "train"
    """The name of the function that runs it (`courses.py`)."""

    plugin: str | None = None
    """The package from docs/plugins that it needs."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """The course's arguments."""

    teacher: TeacherKind = "reasoning"
    error: float = ERROR
    """The teacher's error rate."""

    budgets: float = 1.0
    """How many times the usual number of rollouts it may use."""

    reserve: int = 0
    """Rollouts that training leaves in the budget for later steps."""

    plugins: Callable[[World, int], Mapping[str, object]] | None = None
    """Further plugins of a run: from world and seed to plugins by name."""

    trainer: Mapping[str, Any] = field(default_factory=dict)
    """Changes of the trainer's own configuration."""

    columns: Callable[[World, Sequence[Task]], Mapping[str, Sequence[str]]] | None = None
    """Further columns of the training questions."""


def _arm(label: str, **values: Any) -> Arm:
    return Arm(label, {"ground_truth_column": "answer", **values})


def _word_of(question: Question) -> str:
    return question_text(question.prompt).split()[1]


def solutions(world: World, tasks: Sequence[Task]) -> dict[str, list[str]]:
    """Return the beginning of each worked solution, as a column."""
    return {"solution": [clause(task.word, world.meaning[task.word]) for task in tasks]}


def random_hints(world: World, seed: int) -> dict[str, object]:
    """Give hard questions an invented explanation of their own word, another each time."""
    from outside import ForTheHard

    def write(question: Question, round: int, count: int) -> list[str]:
        rng = random.Random(f"{seed}|{question.id}|{round}")
        draw = lambda: (rng.choice(SKILL_NAMES), rng.choice(SKILL_NAMES))  # noqa: E731
        return [clause(_word_of(question), draw()) for _ in range(count)]

    return {"hints": ForTheHard(write)}


_AFTER: Final = 5_800
"""What INSPO's search costs that comes after training: six evolutions of seven instructions."""

ARMS: Final[Mapping[str, Studied]] = {
    "grpo": Studied(DEMO_ARMS["grpo"]),
    "grpo-twice": Studied(Arm("GRPO, twice the budget"), budgets=2.0),
    "stream": Studied(DEMO_ARMS["stream"]),
    "p2o": Studied(DEMO_ARMS["p2o"]),
    "p2o-bare": Studied(p2o_arm('P2O, hardness = "bare"', hardness="bare")),
    "same-template": Studied(p2o_arm("P2O, one template a group", group_templates="same")),
    "no-distillation": Studied(stream_arm("stream, no distillation", context_distillation=False)),
    "exact-teacher": Studied(stream_arm("stream, teacher never errs"), error=0.0),
    "poor-teacher": Studied(stream_arm("stream, teacher errs 6 times in 10"), error=0.6),
    "random-teacher": Studied(stream_arm("stream, random teacher"), teacher="random"),
    "filler-teacher": Studied(stream_arm("stream, filler teacher"), teacher="filler"),
    "static": Studied(DEMO_ARMS["static"]),
    "inspo": Studied(DEMO_ARMS["inspo"]),
    "inspo-before": Studied(inspo_arm("INSPO, before training", evolution="before")),
    "inspo-after": Studied(
        inspo_arm("INSPO, after training", evolution="after", paraphrase=False), reserve=_AFTER
    ),
    "inspo-constant": Studied(
        inspo_arm("INSPO, a constant population", evolution="off", prune=False)
    ),
    "inspo-no-verify": Studied(inspo_arm("INSPO, no verify", verify="off")),
    "inspo-paraphrase": Studied(inspo_arm("INSPO, paraphrase", proposer="paraphrase")),
    "inspo-history": Studied(inspo_arm("INSPO, history", proposer="history")),
    "both": Studied(DEMO_ARMS["both"]),
    "stream-same-template": Studied(
        _arm(
            "stream, one template a group",
            algorithms=["outside:ONE_TEMPLATE"],
            plugins={"one-template": {"tau": 0.01}},
        )
    ),
    "kl": Studied(stream_arm("stream, KL penalty of 0.02"), trainer={"beta": 0.02}),
    "grpo-kl": Studied(Arm("GRPO, KL penalty of 0.02"), trainer={"beta": 0.02}),
    "success-weight": Studied(
        stream_arm("stream, successes under templates weigh more"),
        "weighted",
        options={"weight": 1.0},
    ),
    "random-hints": Studied(_arm("random hints, no search", algorithms=[]), plugins=random_hints),
    "gold-hints": Studied(
        _arm(
            "hints from the gold answer",
            algorithms=["hints"],
            row_columns=["solution"],
            hints={
                "fraction": 1.0,
                "success_at": 2.0,  # never: the hint stays whole until it is not needed
                "share": 0.8,
                "layout": "{{template}} {{question}}",
            },
        ),
        columns=solutions,
    ),
    "frozen": Studied(stream_arm("the stream's search, the policy frozen"), "frozen"),
    "frozen-first": Studied(
        stream_arm("the stream's search on the frozen policy, then training"),
        "frozen first",
        options={"search": 1 / 3},
    ),
    "frozen-instruction": Studied(
        inspo_arm("INSPO's search, the policy frozen", evolve_until=128), "frozen"
    ),
    "inspo-oldest-leave": Studied(
        _arm(
            "INSPO, the oldest leave, not the worst",
            algorithms=["outside:TURNING_OVER"],
            plugins={"turning-over": INSPO},
        )
    ),
    "espl": Studied(
        _arm("E-SPL", algorithms=["espl"], plugins={"espl": {"instruction": FIRST_INSTRUCTION}}),
        "crossing",
        plugin="espl",
    ),
    "sdft": Studied(
        Arm("TRL's SDFT, told the explanations"),
        "sdft",
        options={
            "distillation_mode": "full_logits",
            "distillation_topk": None,
            "teacher_prompt_template": "{privileged_context} {prompt}",
        },
    ),
    "sdpo": Studied(
        Arm("TRL's SDPO"),
        "sdpo",
        options={
            "reprompt_template": "{solution} {prompt}",
            "solution_template": "{successful_previous_attempt} .",
        },
    ),
}
