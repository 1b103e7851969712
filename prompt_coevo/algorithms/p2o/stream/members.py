"""Which templates the members of a group run under: Thompson sampling, each member for itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prompt_coevo.algorithms.p2o.stream.evidence import Belief
from prompt_coevo.algorithms.p2o.stream.library import Template


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
    members: list[Template | None] = [None] * min(bare, size)
    for member in range(len(members), size):
        count = len(templates) if member < bare + trying else in_use
        drawn = int(np.argmax(rng.beta(belief.solves[:count], belief.fails[:count])))
        members.append(templates[drawn] if templates[drawn].candidate.text else None)
    return members
