"""Which templates the members of a group run under: Thompson sampling, each member for itself."""

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
    """A template for each of `size` members, None for no template.

    The first `bare` members have none; the next `trying` draw from all `templates`, the others from
    those in use, which stand first. `belief` belongs to `templates`.
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
    """`count` draws of the one that may solve most, each for itself, among the first ones."""
    chances = rng.beta(belief.solves[:among], belief.fails[:among], size=(count, among))
    drawn: list[int] = chances.argmax(axis=1).tolist()
    return drawn
