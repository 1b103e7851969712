"""What the demo compares: plain GRPO, the methods, and each with one thing changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from prompt_coevo.demo.facts.teacher import FactsTeacher
from prompt_coevo.demo.facts.world import Task, World, clause
from prompt_coevo.demo.instruction_teacher import InstructionTeacher
from prompt_coevo.demo.rule_teacher import TeacherKind
from prompt_coevo.errors import SettingsError
from prompt_coevo.settings import Settings

BUDGET: Final = 24_576
"""Rollouts of a run: 128 steps, eight epochs, if all are training's."""
LEARNING_RATE: Final = 4e-4
POINTS: Final = 8
"""Of a curve, beside the one at the beginning."""
QUESTIONS: Final = 512
GROUP_SIZE: Final = 6
QUESTIONS_PER_STEP: Final = 32
ROLLOUTS_PER_STEP: Final = GROUP_SIZE * QUESTIONS_PER_STEP

FIRST_INSTRUCTION: Final = "<first instruction>"
"""Stands in an arm's values for what INSPO begins with, which depends on the world."""
RULES: Final = 10
"""So many fit into an instruction."""

ERROR: Final = 0.3
"""How often the teacher errs, as a rule."""


@dataclass(frozen=True)
class Arm:
    """One way of training. Without values for the settings it is the bare trainer."""

    label: str
    values: Mapping[str, Any] | None = None
    teacher: TeacherKind = "reasoning"
    error: float = ERROR
    """How often the teacher errs."""

    budgets: float = 1.0
    """How many times the usual number of rollouts it may use."""

    reserve: int = 0
    """Rollouts of the budget that training leaves over, for what comes after it."""

    plugins: Callable[[World, int], Mapping[str, object]] | None = None
    """Further plugins of a run: from world and seed to plugins by name."""

    trainer: Mapping[str, Any] = field(default_factory=dict)
    """What the trainer's own configuration has otherwise."""

    columns: Callable[[World, Sequence[Task]], Mapping[str, Sequence[str]]] | None = None
    """Further columns of the training questions."""

    @property
    def coevolves(self) -> bool:
        return self.values is not None

    @property
    def needs_own_teacher(self) -> bool:
        """Whether the arm is about the teacher, so that no other model can take its place."""
        return (self.teacher, self.error) != ("reasoning", ERROR)

    def settings(
        self,
        world: World,
        seed: int,
        reflection: Mapping[str, Any] | None = None,
    ) -> Settings:
        """The arm's settings. `reflection` is the section of that name; if it names nobody who answers,
        the built-in teacher does."""
        values = _filled(self.values or {}, first_instruction(world))
        answering = dict(reflection or {})
        if not answering.keys() & {"model", "function"}:
            answering["function"] = teacher(self.teacher, seed, self.error)
        return Settings(seed=seed, reflection=answering, **values)


def _filled(values: Mapping[str, Any], instruction: str) -> dict[str, Any]:
    """The values with the instruction in the places that are kept for it."""
    filled = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            value = _filled(value, instruction)
        filled[name] = instruction if value == FIRST_INSTRUCTION else value
    return filled


def first_instruction(world: World) -> str:
    """What a user who knows a little would write: two rules about easy words, and they are right."""
    rules = [clause(word, world.meaning[word]) for word in world.words("easy")[:2]]
    return " ".join(["note remember", *rules])


def teacher(kind: TeacherKind, seed: int, error: float) -> Callable[[str], str]:
    """What answers reflection prompts, for templates and for instructions."""
    for_templates = FactsTeacher(kind, seed=seed, error=error)
    for_instructions = InstructionTeacher(
        FactsTeacher(kind, seed=seed, error=error, max_clauses=RULES)
    )
    return lambda prompt: (
        for_templates(prompt) if "<current_template>" in prompt else for_instructions(prompt)
    )


INSPO: Final[Mapping[str, Any]] = {
    "instruction": FIRST_INSTRUCTION,
    "evolve_until": 100,
    "verify_size": 64,
    "rounds": 1,
}
"""For a run of 128 steps."""


def p2o_arm(label: str, p2o: Mapping[str, Any] | None = None, **changes: Any) -> Arm:
    """P2O with the package's defaults; hard is a question on which all rollouts fail."""
    own = {name: changes.pop(name) for name in ("teacher", "error") if name in changes}
    values = {"ground_truth_column": "answer", **changes, "p2o": {"tau": 0.01, **(p2o or {})}}
    return Arm(label, values, **own)


def waves_arm(label: str, **p2o: Any) -> Arm:
    """P2O with the paper's search, scaled to this world."""
    return Arm(label, {"preset": "demo-p2o", "p2o": {"calls_per_hard": "unlimited", **p2o}})


def inspo_arm(label: str, reserve: int = 0, **inspo: Any) -> Arm:
    """INSPO on the schedule of a run of 128 steps."""
    return Arm(label, {"preset": "demo-inspo", "inspo": {**INSPO, **inspo}}, reserve=reserve)


_AFTER: Final = 5_800
"""What INSPO's search costs that comes after training: six evolutions of seven instructions."""

ARMS: Final[dict[str, Arm]] = {
    "grpo": Arm("GRPO"),
    "grpo-twice": Arm("GRPO, twice the budget", budgets=2.0),
    "stream": p2o_arm("P2O"),
    "waves": waves_arm("P2O, the paper's search"),
    "waves-bare": waves_arm('P2O, the paper\'s search, hardness = "bare"', hardness="bare"),
    "same-template": waves_arm(
        "P2O, the paper's search, one template a group", group_templates="same"
    ),
    "no-distillation": p2o_arm("P2O, no distillation", context_distillation=False),
    "band": p2o_arm("P2O, ratio band", distill_ratio="band"),
    "templated": p2o_arm("P2O, ratio templated", distill_ratio="templated"),
    "exact-teacher": p2o_arm("P2O, teacher never errs", error=0.0),
    "poor-teacher": p2o_arm("P2O, teacher errs 6 times in 10", error=0.6),
    "random-teacher": p2o_arm("P2O, random teacher", teacher="random"),
    "filler-teacher": p2o_arm("P2O, filler teacher", teacher="filler"),
    "static": inspo_arm("static instruction", evolution="off", paraphrase=False),
    "inspo": inspo_arm("INSPO"),
    "inspo-before": inspo_arm("INSPO, before training", evolution="before"),
    "inspo-after": inspo_arm("INSPO, after training", _AFTER, evolution="after", paraphrase=False),
    "inspo-constant": inspo_arm("INSPO, a constant population", evolution="off", prune=False),
    "inspo-no-verify": inspo_arm("INSPO, no verify", verify="off"),
    "inspo-paraphrase": inspo_arm("INSPO, paraphrase", proposer="paraphrase"),
    "inspo-history": inspo_arm("INSPO, history", proposer="history"),
    "both": Arm(
        "INSPO and P2O",
        {
            "preset": "demo-inspo",
            "algorithms": ["inspo", "p2o"],
            "inspo": INSPO,
            "p2o": {"tau": 0.01},
        },
    ),
}


def arm(name: str) -> Arm:
    """The arm of this name. Raises SettingsError that lists the known ones."""
    if name not in ARMS:
        raise SettingsError(f"there is no arm {name!r}; known: {', '.join(ARMS)}")
    return ARMS[name]
