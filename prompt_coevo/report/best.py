"""The results of a run: its best instruction, and the templates in use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prompt_coevo.lines import JSON
from prompt_coevo.preflight.page import plural
from prompt_coevo.report.run import CandidateRecord, Run, Score
from prompt_coevo.types import EMPTY_TEMPLATE
from prompt_coevo.visible import visible


class Best(NamedTuple):
    """`instruction` and its `weight`, if it has one; `templates` with the number of questions that each
    solves, the best first; `scores` of all rollouts under each template."""

    instruction: CandidateRecord | None
    weight: float | None
    templates: list[tuple[CandidateRecord, int]]
    scores: Mapping[str, Score]

    def to_json(self) -> dict[str, JSON]:
        """Return JSON values with the unmodified texts."""
        one = self.instruction
        return {
            "instruction": {"id": one.id, "weight": self.weight, "text": one.text} if one else None,
            "templates": [
                {
                    "id": one.id,
                    "text": one.text,
                    "solved": solved,
                    "evidence": [line.words for line in one.evidence],
                    "rollouts": self.scores[one.id].rollouts,
                    "mean_reward": self.scores[one.id].mean,
                }
                for one, solved in self.templates
            ],
        }

    def lines(self) -> Iterator[str]:
        """Yield lines for a terminal."""
        if self.instruction is None and not self.templates:
            yield "Nothing is in use: no instruction and no template."
        if self.instruction is not None:
            told = "not measured" if self.weight is None else f"weight {self.weight:.3g}"
            yield f"instruction {visible(self.instruction.id)}, {told}:"
            yield visible(self.instruction.text)
        for one, solved in self.templates:
            yield f"template {visible(one.id)}, solves {plural(solved, 'question')}:"
            yield visible(one.text)


def best_of(run: Run) -> Best:
    """Find the instruction in use with the highest last weight, and the templates in use, ranked by the
    number of questions that each solves."""
    used = [one for one in run.candidates.values() if one.fate == "in use"]
    scores = run.scores()
    weights, solved = run.weights(), run.solved_by_template(scores)
    by_template: defaultdict[str, Score] = defaultdict(Score)
    for (_, template), score in scores.items():
        if template is not None and score.mean is not None:
            by_template[template].add(score.rollouts, score.mean)
    templates = [one for one in used if one.kind == "template" and one.id != EMPTY_TEMPLATE.id]
    instruction = max(
        (one for one in used if one.kind == "instruction"),
        key=lambda one: weights.get(one.id, float("-inf")),
        default=None,
    )
    return Best(
        instruction,
        weights.get(instruction.id) if instruction else None,
        [(one, solved[one.id]) for one in sorted(templates, key=lambda one: -solved[one.id])],
        by_template,
    )
