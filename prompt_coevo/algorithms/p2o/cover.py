"""Choose the template of each hard question: P2O Algorithm 2, step 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypedDict

import numpy as np

from prompt_coevo.algorithms.p2o.pareto import greedy_cover, mean_score_weights
from prompt_coevo.candidates.searches import TemplatesInUse
from prompt_coevo.candidates.trials import ScoredPool
from prompt_coevo.lines import JSON
from prompt_coevo.types import Candidate

_FEWEST: Final = 3
_BY_CHANCE: Final = 0.05


def one_answer(
    pool: ScoredPool, solved_at: float, truth: Callable[[str], str | None]
) -> tuple[Candidate, ...]:
    """Return the pool's templates under which a constant answer would score the same. Not in the paper.

    Such a template solves at least three dev questions, all with the same right answer, and no other. A
    template that works would miss all the others by chance in less than 5 % of cases: each with the share
    that it misses of the questions with that answer. `truth` returns a question's right answer, None if it
    is unknown; questions without one decide nothing.
    """
    truths = [truth(question) for question in pool.sample_ids]
    found = []
    for candidate, scores in zip(pool.candidates, pool.scores, strict=True):
        solved = [right for right, score in zip(truths, scores, strict=True) if score >= solved_at]
        others = [right for right in truths if right not in (None, *solved)]
        if not candidate.text or len(solved) < _FEWEST or len(set(solved)) > 1 or None in solved:
            continue
        share = len(solved) / truths.count(solved[0])
        if (1 - share) ** len(others) < _BY_CHANCE:
            found.append(candidate)
    return tuple(found)


class CoverState(TypedDict):
    """The saved `TemplateCover`."""

    templates: list[dict[str, JSON]]
    weights: list[float]
    solvers: dict[str, list[int]]
    hard_ids: list[str]


@dataclass(frozen=True)
class TemplateCover(TemplatesInUse):
    """The templates that together solve the dev questions, and how to draw from them.

    `weights[i]` belongs to `templates[i]`; `solvers` maps a solved dev question to the templates that
    solve it. All other hard questions draw from the whole cover. Templates need not be non-empty:
    the empty one stays in the cover if it solves something.
    """

    weights: tuple[float, ...]
    solvers: Mapping[str, tuple[int, ...]]

    @classmethod
    def from_pool(
        cls, pool: ScoredPool, hard_ids: frozenset[str], solved_at: float
    ) -> TemplateCover | None:
        """Build the greedy cover of a pool's dev scores; return None if no template solves anything."""
        rows = greedy_cover(pool.scores, solved_at)
        if not len(rows):
            return None
        solved = pool.scores[rows] >= solved_at
        return cls(
            templates=tuple(pool.candidates[row] for row in rows),
            weights=tuple(mean_score_weights(pool.scores[rows]).tolist()),
            solvers={
                question_id: tuple(np.flatnonzero(solved[:, column]).tolist())
                for column, question_id in enumerate(pool.sample_ids)
                if solved[:, column].any()
            },
            hard_ids=hard_ids,
        )

    def draw(
        self,
        question_id: str,
        count: int,
        rng: np.random.Generator,
        group_templates: Literal["diverse", "same"] = "diverse",
    ) -> list[Candidate]:
        """Draw `count` templates for a hard question with replacement, weighted by mean dev score.

        `group_templates="same"` draws one and repeats it (the ablation of Table 2).
        """
        eligible = self.solvers.get(question_id) or range(len(self.templates))
        weights = np.array([self.weights[index] for index in eligible])
        total = weights.sum()
        draws = 1 if group_templates == "same" else count
        drawn = rng.choice(eligible, size=draws, p=weights / total if total else None)
        return [self.templates[drawn[member % draws]] for member in range(count)]

    def to_json(self) -> CoverState:
        return {
            "templates": [template.to_json() for template in self.templates],
            "weights": list(self.weights),
            "solvers": {key: list(rows) for key, rows in self.solvers.items()},
            "hard_ids": sorted(self.hard_ids),
        }

    @classmethod
    def from_json(cls, data: CoverState) -> TemplateCover:
        return cls(
            templates=tuple(Candidate.from_json(item) for item in data["templates"]),
            weights=tuple(data["weights"]),
            solvers={key: tuple(rows) for key, rows in data["solvers"].items()},
            hard_ids=frozenset(data["hard_ids"]),
        )
