"""Decide whether a template on trial comes into use: pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Final

from prompt_coevo.algorithms.stream.evidence import Evidence
from prompt_coevo.algorithms.stream.library import Template

_TRIES: Final = 10
"""Drop a template after so many rollouts without a success. One that solves a fourth of them is dropped by
chance in 6 % of trials."""
_TRIES_OF_ONE_ANSWER: Final = 2 * _TRIES


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


def one_answer(
    template: Template,
    hard: Collection[int],
    evidence: Evidence,
    truth: Callable[[int], str | None],
) -> bool:
    """Return True if a constant answer would have solved as much as the template did.

    That is: everything it solved has the same right answer, several hard questions like those shown have
    this answer, and others have a different one (labels, multiple choice, digits). Questions that are not
    hard do not count, because templates are not tried on them. `truth` returns a question's right answer,
    None if it is unknown; then the result is False.
    """
    right = {truth(question) for question in template.solved_on}
    if len(right) != 1 or None in right:
        return False
    alike = {*template.shown, *evidence.around(template.shown)}.intersection(hard)
    counts = Counter(truth(question) for question in alike.union(template.solved_on))
    return counts[right.pop()] > 1 and len(counts.keys() - {None}) > 1


def verdict(
    template: Template, *, proof: bool, stale: bool, one_answer: bool = False
) -> bool | None:
    """Return True if the template comes into use, False if it is dropped, None if that is still open.

    `proof` requires a success on a question that its proposer did not see, and with `one_answer` another
    one whose right answer is different. `stale`: the trial is too old.
    """
    solved = template.solved_unseen if proof else template.solved
    if solved and not one_answer:
        return True
    if stale:
        return False
    tries = template.tried_unseen if proof and template.solved else template.tried
    return False if tries >= (_TRIES_OF_ONE_ANSWER if solved else _TRIES) else None
