"""What the demo compares: plain GRPO, the two methods, and each with one thing changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from prompt_coevo.demo.instruction_teacher import InstructionTeacher
from prompt_coevo.demo.rule_teacher import TeacherKind
from prompt_coevo.demo.teacher import Teacher
from prompt_coevo.demo.world import World
from prompt_coevo.errors import SettingsError
from prompt_coevo.settings import Settings


@dataclass(frozen=True)
class Arm:
    """One way of training. Without a preset it is the bare trainer."""

    label: str
    preset: str | None = None
    teacher: TeacherKind = "reasoning"
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def coevolves(self) -> bool:
        return self.preset is not None

    def settings(self, seed: int, reflection_lm: str | None, api_base: str | None) -> Settings:
        """The arm's preset with its changes, and a litellm model if one is given."""
        reflection: dict[str, Any] = {"function": _teacher(self.teacher, seed)}
        if reflection_lm is not None:
            reflection = {"model": reflection_lm}
        if api_base is not None:
            reflection["api_base"] = api_base
        changes = dict(self.changes)
        if self.preset != "demo-p2o":
            changes["inspo"] = {
                "instruction": first_instruction(World()),
                **changes.get("inspo", {}),
            }
        return Settings(preset=self.preset, seed=seed, reflection=reflection, **changes)


def first_instruction(world: World) -> str:
    """What a user who knows a little would write: two rules about easy words, and they are right."""
    easy = [word for word, kind in world.kind.items() if kind == "easy"][:2]
    return "note remember " + " ".join(f"{word} means {world.meaning[word]} ." for word in easy)


def _teacher(kind: TeacherKind, seed: int) -> Callable[[str], str]:
    for_templates = Teacher(kind, seed=seed)
    for_instructions = InstructionTeacher(seed=seed)
    return lambda prompt: (
        for_templates(prompt) if "<current_template>" in prompt else for_instructions(prompt)
    )


def _p2o(label: str, teacher: TeacherKind = "reasoning", **changes: Any) -> Arm:
    return Arm(label, "demo-p2o", teacher, changes)


def _inspo(label: str, **changes: Any) -> Arm:
    return Arm(label, "demo-inspo", changes={"inspo": changes})


ARMS: Final[dict[str, Arm]] = {
    "grpo": Arm("GRPO"),
    "p2o": _p2o("P2O"),
    "no-distillation": _p2o("P2O, no distillation", context_distillation=False),
    "same-template": _p2o("P2O, one template a group", p2o={"group_templates": "same"}),
    "filler-teacher": _p2o("P2O, filler teacher", teacher="filler"),
    "random-teacher": _p2o("P2O, random teacher", teacher="random"),
    "band": _p2o("P2O, ratio band", distill_ratio="band"),
    "templated": _p2o("P2O, ratio templated", distill_ratio="templated"),
    "static": _inspo("static instruction", evolution="off", paraphrase=False),
    "inspo": _inspo("INSPO"),
    "inspo-paraphrase": _inspo("INSPO, paraphrase", proposer="paraphrase"),
    "inspo-history": _inspo("INSPO, history", proposer="history"),
    "inspo-no-prune": _inspo("INSPO, no prune", evolution="off", prune=False),
    "inspo-no-verify": _inspo("INSPO, no verify", verify="off"),
    "inspo-before": _inspo("INSPO, before training", evolution="before"),
    "inspo-after": _inspo("INSPO, after training", evolution="after", paraphrase=False),
    "both": Arm("INSPO and P2O", "demo-both"),
}

SUITES: Final[dict[str, tuple[str, ...]]] = {
    "p2o": tuple(name for name, arm in ARMS.items() if arm.preset in (None, "demo-p2o")),
    "inspo": ("static", *(name for name in ARMS if name.startswith("inspo"))),
    "both": ("grpo", "static", "p2o", "inspo", "both"),
}
"""Arms that belong into one table."""


def arm(name: str) -> Arm:
    """The arm of this name. Raises SettingsError that lists the known ones."""
    if name not in ARMS:
        raise SettingsError(f"there is no arm {name!r}; known: {', '.join(ARMS)}")
    return ARMS[name]
