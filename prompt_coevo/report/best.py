"""What a run has found: its best instruction, and the templates in use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from prompt_coevo.report.run import CandidateRecord, Run
from prompt_coevo.types import EMPTY_TEMPLATE
from prompt_coevo.visible import visible


@dataclass(frozen=True)
class Best:
    """`instruction` with its weight, None if there is none; `templates` with the number of questions that
    each solves, the best first."""

    instruction: tuple[CandidateRecord, float | None] | None
    templates: tuple[tuple[CandidateRecord, int], ...]

    def to_json(self) -> dict[str, Any]:
        """With the texts as they are."""
        instruction = None
        if self.instruction is not None:
            one, weight = self.instruction
            instruction = {"id": one.id, "weight": weight, "text": one.text}
        return {
            "instruction": instruction,
            "templates": [
                {"id": one.id, "solved": solved, "text": one.text} for one, solved in self.templates
            ],
        }

    def lines(self) -> Iterator[str]:
        """For a terminal."""
        if self.instruction is None and not self.templates:
            yield "Nothing is in use: no instruction and no template."
        if self.instruction is not None:
            one, weight = self.instruction
            told = "not measured" if weight is None else f"weight {weight:.3g}"
            yield f"instruction {visible(one.id)}, {told}:"
            yield visible(one.text)
        for one, solved in self.templates:
            yield f"template {visible(one.id)}, solves {solved} questions:"
            yield visible(one.text)


def best_of(run: Run) -> Best:
    """From the last weights, or from who is in use; a template counts by the questions that it solves."""
    used = [one for one in run.candidates.values() if one.fate == "in use" and one.turns]
    templates = [one for one in used if one.kind == "template" and one.id != EMPTY_TEMPLATE.id]
    solved = run.solved_by_template()
    ranked = sorted(templates, key=lambda one: -solved.get(one.id, 0))
    return Best(
        _instruction(run, [one for one in used if one.kind == "instruction"]),
        tuple((one, solved.get(one.id, 0)) for one in ranked),
    )


def _instruction(
    run: Run, members: list[CandidateRecord]
) -> tuple[CandidateRecord, float | None] | None:
    weights = next(
        (run.steps[n].weights for n in sorted(run.steps)[::-1] if run.steps[n].weights), {}
    )
    ranked = sorted(members, key=lambda one: -weights.get(one.id, float("-inf")))
    return (ranked[0], weights.get(ranked[0].id)) if ranked else None
