"""Decide whether a template on trial comes into use: pure functions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from prompt_coevo.algorithms.stream.evidence import Evidence
from prompt_coevo.algorithms.stream.library import Template

_TRIES: Final = 10
"""Drop a template after so many rollouts without a success. One that solves a fourth of them is dropped by
chance in 6 % of trials."""


def concerns(template: Template, question: int, evidence: Evidence) -> bool:
    """Return True if the question is like one shown, so that its rollouts count for the template.

    If no question is like any of those shown, all questions count.
    """
    if question in template.shown:
        return True
    near = set(evidence.near(question).numbers.tolist())
    return bool(near.intersection(template.shown)) or not evidence.around(template.shown)


def unseen(template: Template, hard: Collection[int], evidence: Evidence) -> list[int]:
    """Return the hard questions most like those that the proposer saw fail, but which it did not see."""
    return [question for question in evidence.around(template.shown) if question in hard]


def verdict(template: Template, *, proof: bool, stale: bool) -> bool | None:
    """Return True if the template comes into use, False if it is dropped, None if that is still open.

    `proof` requires a success on a question that its proposer did not see. `stale`: the trial is too old.
    """
    if template.solved_unseen if proof else template.solved:
        return True
    if stale:
        return False
    tries = template.tried_unseen if template.solved else template.tried
    return False if tries >= _TRIES else None
