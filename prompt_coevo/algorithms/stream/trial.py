"""Whether a template on trial comes into use: pure rules."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from prompt_coevo.algorithms.stream.evidence import Evidence
from prompt_coevo.algorithms.stream.library import Template

_TRIES: Final = 10
"""Rollouts without a success after which a template is given up: one that solves a fourth of them is given
up by chance in 6 % of the trials."""


def concerns(template: Template, question: int, evidence: Evidence) -> bool:
    """Whether a rollout on this question says something about the template: it is like one shown.

    Where nothing is like any of those shown, all questions count.
    """
    if question in template.shown:
        return True
    near = set(evidence.near(question).numbers.tolist())
    return bool(near.intersection(template.shown)) or not evidence.around(template.shown)


def unseen(template: Template, hard: Collection[int], evidence: Evidence) -> list[int]:
    """The hard questions most like those that the proposer saw fail, which it did not see."""
    return [question for question in evidence.around(template.shown) if question in hard]


def verdict(template: Template, *, proof: bool, stale: bool) -> bool | None:
    """Whether the template comes into use; None: not known yet.

    With `proof` it takes a success on a question that its proposer did not see. `stale`: it has been on
    trial for too long.
    """
    if template.solved_unseen if proof else template.solved:
        return True
    if stale:
        return False
    tries = template.tried_unseen if template.solved else template.tried
    return False if tries >= _TRIES else None
