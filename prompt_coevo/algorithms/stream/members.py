"""Choose the templates of a group's members by Thompson sampling, independently for each member."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prompt_coevo.algorithms.stream.evidence import Belief
from prompt_coevo.algorithms.stream.library import Template


def draw_members(
    size: int,
    templates: Sequence[Template],
    belief: Belief,
    rng: np.random.Generator,
    *,
    bare: int,
    trying: int,
) -> list[Template | None]:
    """Draw a template for each of `size` members; None means no template.

    The first `bare` members get none. The next `trying` draw from all `templates`, the rest only from those
    in use, which come first in the list. `belief` has one entry for each of `templates`.
    """
    in_use = sum(template.state == "in use" for template in templates)
    bare = min(bare, size)
    trying = min(trying, size - bare)
    drawn = [
        *_thompson(trying, belief, len(templates), rng),
        *_thompson(size - bare - trying, belief, in_use, rng),
    ]
    chosen = [templates[number] for number in drawn]
    return [None] * bare + [one if one.candidate.text else None for one in chosen]


def _thompson(count: int, belief: Belief, among: int, rng: np.random.Generator) -> list[int]:
    """Draw `count` times: sample a chance for each of the first `among` templates and take the highest."""
    chances = rng.beta(belief.solves[:among], belief.fails[:among], size=(count, among))
    drawn: list[int] = chances.argmax(axis=1).tolist()
    return drawn
