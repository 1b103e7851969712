"""What the demo compares: plain GRPO, P2O, and P2O with one thing changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from prompt_coevo.demo.teacher import Teacher, TeacherKind
from prompt_coevo.errors import SettingsError
from prompt_coevo.settings import Settings


@dataclass(frozen=True)
class Arm:
    """One way of training. Without `coevolves` it is the bare trainer."""

    label: str
    coevolves: bool = True
    teacher: TeacherKind = "reasoning"
    changes: dict[str, Any] = field(default_factory=dict)

    def settings(self, seed: int, reflection_lm: str | None, api_base: str | None) -> Settings:
        """The demo preset with this arm's changes, and a litellm model if one is given."""
        reflection: dict[str, Any] = {"function": Teacher(self.teacher, seed=seed)}
        if reflection_lm is not None:
            reflection = {"model": reflection_lm}
        if api_base is not None:
            reflection["api_base"] = api_base
        return Settings(preset="demo", seed=seed, reflection=reflection, **self.changes)


ARMS: Final[dict[str, Arm]] = {
    "grpo": Arm("GRPO", coevolves=False),
    "p2o": Arm("P2O"),
    "no-distillation": Arm("P2O, no distillation", changes={"context_distillation": False}),
    "same-template": Arm("P2O, one template a group", changes={"p2o": {"group_templates": "same"}}),
    "filler-teacher": Arm("P2O, filler teacher", teacher="filler"),
    "random-teacher": Arm("P2O, random teacher", teacher="random"),
    "band": Arm("P2O, ratio band", changes={"distill_ratio": "band"}),
    "templated": Arm("P2O, ratio templated", changes={"distill_ratio": "templated"}),
}


def arm(name: str) -> Arm:
    """The arm of this name. Raises SettingsError that lists the known ones."""
    if name not in ARMS:
        raise SettingsError(f"there is no arm {name!r}; known: {', '.join(ARMS)}")
    return ARMS[name]
