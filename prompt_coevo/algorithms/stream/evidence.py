"""Record how each template did on each question, and estimate how it will do on other questions."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from prompt_coevo.algorithms.stream.likeness import Alike, Likeness, alone
from prompt_coevo.errors import PluginError

Floats = NDArray[np.float32]

_FRESHNESS: Final = 0.995
"""An outcome keeps this much of its weight with every weight update, because the policy learns."""
_ROWS: Final = 16_384
_AROUND: Final = 1_024
"""Cached answers: more than there can be templates."""
_FORGOTTEN: Final = 0.01
_HOPE: Final = 0.7
_DOUBT: Final = 0.05
_ARMS: Final = 4
"""This many templates share the hope given to those never tried near a question. With more hope, the best
draw among many untried ones would beat a template that is known to work."""
_ANYWHERE: Final = 0.02
_MOST_ANYWHERE: Final = 0.5
"""Outcomes on unrelated questions count at most as half a rollout, however many there are."""


_SOLVABLE: Final = 0.3
"""A question that some template is expected to solve this often needs no new one."""


class Belief(NamedTuple):
    """Beta distributions of the chance that each of n templates solves a question; both arrays are (n,)."""

    solves: Floats
    fails: Floats

    @property
    def means(self) -> Floats:
        means: Floats = self.solves / (self.solves + self.fails)
        return means

    def some(self, first: int, end: int) -> Belief:
        """Return the belief about templates `first` to `end` (exclusive)."""
        return Belief(self.solves[first:end], self.fails[first:end])


class EvidenceState(TypedDict):
    """The saved `Evidence`. `cells` are the rows, slots and outcomes that are not zero, packed."""

    questions: list[str]
    updated: list[int]
    cells: dict[str, str]
    anywhere: list[list[float]]
    anywhere_updated: int


class Evidence:
    """Weights of solved rollouts and of all rollouts, by question and by library slot.

    At most 16 384 questions are known, those rolled out last. The belief in a template on a question counts
    outcomes on other questions by their likeness, a little of all outcomes anywhere, and adds hope if the
    template was written for this question or one like it.
    """

    def __init__(self, questions: int, likeness: Likeness) -> None:
        self._likeness, self._compared = likeness, questions
        self._row_of = np.full(questions, -1, dtype=np.int32)
        self._question_of: list[int] = []
        self._updated: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._outcomes: Floats = np.zeros(
            (2, 0, 0), dtype=np.float32
        )  # (solved and all, rows, slots)
        self._anywhere = np.zeros((2, 0))
        self._anywhere_updated = 0
        self._shown: dict[int, tuple[int, ...]] = {}
        self._written_for: dict[int, set[int]] = {}
        # Cached: every rollout of a template on trial calls it with the same argument.
        self.around = lru_cache(_AROUND)(self._around)
        """Return the questions like some of the given ones, without these, the most alike first."""

    def make_room(self, questions: int) -> None:
        """Make room for so many questions. Those that the likeness does not know are like no other."""
        if (more := questions - len(self._row_of)) > 0:
            self._row_of = np.concatenate([self._row_of, np.full(more, -1, dtype=np.int32)])

    def compare_by(self, likeness: Likeness, questions: int) -> None:
        """Use another likeness, which knows the first so many questions."""
        self._likeness, self._compared = likeness, questions
        self.around.cache_clear()

    def joined(self, questions: int) -> None:
        """Note that the likeness now knows the first so many questions."""
        self._compared = questions
        self.around.cache_clear()

    def near(self, question: int) -> Alike:
        """Return the questions most like this one, itself first. Raises PluginError for a wrong answer."""
        if question >= self._compared:
            return alone(question)
        alike = self._likeness.near(question)
        try:
            numbers, weights = np.asarray(alike.numbers), np.asarray(alike.weights)
            right = (
                len(numbers) == len(weights)
                and (numbers[0], weights[0]) == (question, 1.0)
                and 0 <= numbers.min() <= numbers.max() < len(self._row_of)
                and bool(((weights > 0) & (weights <= 1)).all())
            )
        except (AttributeError, IndexError, TypeError, ValueError):
            right = False
        if not right:
            raise PluginError(
                f"the likeness answers {alike!r} for question {question} of {len(self._row_of)}; it must "
                "answer an Alike with that question first, of weight 1, and others with weights above 0 "
                "and up to 1"
            )
        return alike

    def alike(self, some: Sequence[int], others: Sequence[int]) -> bool:
        """Return True if one of `some` is in `others` or like one of them."""
        return not {*others, *self.around(tuple(others))}.isdisjoint(some)

    def is_solvable(self, question: int, belief: Belief) -> bool:
        """Return True if a template in the belief is expected to solve the question, or it is solved
        without one. Bare successes on like questions do not count: those may be easier."""
        row = self._row_of[question]
        solved, tried = self._outcomes[:, row, 0] if row >= 0 else (0.0, 0.0)
        return bool(max(belief.means.max(initial=0.0), solved / (1.0 + tried)) >= _SOLVABLE)

    def solved_on(self, questions: Collection[int], step: int) -> Floats:
        """Return how much each slot's template has recently solved on these questions, shape (slots,)."""
        rows = self._row_of[np.array(sorted(questions), dtype=np.int64)]
        rows = rows[rows >= 0]
        ages = (_FRESHNESS ** (step - self._updated[rows])).astype(np.float32)
        return np.asarray(ages @ self._outcomes[0, rows], dtype=np.float32)

    def _around(self, shown: tuple[int, ...]) -> tuple[int, ...]:
        likeness: dict[int, float] = {}
        for one in shown:
            alike = self.near(one)
            for number, weight in zip(alike.numbers.tolist(), alike.weights.tolist(), strict=True):
                likeness[number] = max(likeness.get(number, 0.0), weight)
        others = set(likeness).difference(shown)
        return tuple(sorted(others, key=lambda number: (-likeness[number], number)))

    def open(self, slot: int, shown: Sequence[int]) -> None:
        """Assign a slot, perhaps another template's before, to a template that was written for `shown`."""
        self._make_room(slot + 1)
        self._outcomes[:, :, slot] = 0
        self._anywhere[:, slot] = 0
        self.write_for(slot, shown)

    def write_for(self, slot: int, shown: Sequence[int]) -> None:
        """Set the questions that the template in the slot was written for."""
        for question in self._shown.get(slot, ()):
            self._written_for[question].discard(slot)
        self._shown[slot] = tuple(shown)
        for question in shown:
            self._written_for.setdefault(question, set()).add(slot)

    def add(
        self,
        question: int,
        slots: Sequence[int],
        rewards: Sequence[float],
        ages: Sequence[int],
        step: int,
    ) -> None:
        """Add the outcomes of some rollouts on a question: their slots, rewards and ages.

        Rewards are clipped to [0, 1]; an age is the number of weight updates since the rollout was sampled.
        """
        row = self._row(question, step)
        weights = _FRESHNESS ** np.asarray(ages, dtype=np.float64)
        outcomes = weights * (np.clip(rewards, 0.0, 1.0), np.ones(len(slots)))
        if step != self._anywhere_updated:
            self._anywhere *= _FRESHNESS ** (step - self._anywhere_updated)
            self._anywhere_updated = step
        for kind in range(2):  # `add.at`, because a slot may occur more than once
            np.add.at(self._outcomes[kind, row], np.asarray(slots), outcomes[kind])
            np.add.at(self._anywhere[kind], np.asarray(slots), outcomes[kind])

    def belief(self, question: int, slots: Sequence[int], step: int) -> Belief:
        """Return the chances that the templates in these slots solve this question."""
        chosen = np.asarray(slots, dtype=np.int64)
        solved, tried = self.outcomes_near(question, slots, step)
        fresh = _FRESHNESS ** (step - self._anywhere_updated)
        solved_anywhere, tried_anywhere = _ANYWHERE * fresh * self._anywhere[:, chosen]
        much = np.maximum(1.0, tried_anywhere / _MOST_ANYWHERE)
        solved_anywhere, tried_anywhere = solved_anywhere / much, tried_anywhere / much
        unproven = min(1.0, _ARMS / max(1, len(chosen))) * (_DOUBT + solved_anywhere)
        solves = unproven + _HOPE * self.hope(question)[chosen] + solved
        fails = 1.0 + (tried - solved) + (tried_anywhere - solved_anywhere)
        return Belief(solves.astype(np.float32), fails.astype(np.float32))

    def outcomes_near(self, question: int, slots: Sequence[int], step: int) -> Floats:
        """Return the weights of solved and of all rollouts on a question and those like it, (2, slots)."""
        alike = self.near(question)
        rows = self._row_of[alike.numbers]
        known = rows >= 0
        rows = rows[known]
        ages = (_FRESHNESS ** (step - self._updated[rows])).astype(np.float32)
        outcomes = self._outcomes[:, rows][:, :, np.asarray(slots, dtype=np.int64)]
        return np.asarray((alike.weights[known] * ages) @ outcomes, dtype=np.float32)

    def solved_anywhere(self, slot: int) -> float:
        """Return how much the template in a slot has recently solved on all questions."""
        return float(self._anywhere[0, slot])

    def halve(self) -> None:
        """Halve the weight of all outcomes, because the instruction they were obtained under changed."""
        self._outcomes *= 0.5
        self._anywhere *= 0.5

    def to_json(self, ids: Sequence[str]) -> EvidenceState:
        """Return the outcomes, without the templates; `ids` are the questions' ids by number."""
        count = len(self._question_of)
        rows, slots = np.nonzero(self._outcomes[1, :count])
        return {
            "questions": [ids[question] for question in self._question_of],
            "updated": [int(step) for step in self._updated[:count]],
            "cells": {
                "rows": _packed(rows, "<i4"),
                "slots": _packed(slots, "<i4"),
                "outcomes": _packed(self._outcomes[:, rows, slots], "<f4"),
            },
            "anywhere": self._anywhere.tolist(),
            "anywhere_updated": self._anywhere_updated,
        }

    def load(self, state: EvidenceState, numbers: Mapping[str, int]) -> None:
        """Restore what `to_json` returned, once every slot is open; questions that are gone are skipped."""
        anywhere = np.array(state["anywhere"])
        self._make_room(anywhere.shape[1])
        self._anywhere[:, : anywhere.shape[1]] = anywhere
        self._anywhere_updated = state["anywhere_updated"]
        places = np.full(len(state["questions"]), -1)
        for number, question_id in enumerate(state["questions"]):
            if (question := numbers.get(question_id)) is not None:
                places[number] = self._row(question, state["updated"][number])
        cells = state["cells"]
        rows, slots = _unpacked(cells["rows"], "<i4"), _unpacked(cells["slots"], "<i4")
        outcomes = _unpacked(cells["outcomes"], "<f4").reshape(2, -1)
        known = places[rows] >= 0
        self._outcomes[:, places[rows[known]], slots[known]] = outcomes[:, known]

    def _make_room(self, slots: int) -> None:
        if (missing := slots - self._anywhere.shape[1]) > 0:
            room = max(32, missing)
            self._outcomes = np.pad(self._outcomes, ((0, 0), (0, 0), (0, room)))
            self._anywhere = np.pad(self._anywhere, ((0, 0), (0, room)))

    def hope(self, question: int) -> Floats:
        """Return by slot the likeness of this question to the nearest one its template was written for."""
        alike = self.near(question)
        known: dict[int, float] = {}  # faster to write to than an array
        for number, weight in zip(alike.numbers.tolist(), alike.weights.tolist(), strict=True):
            for slot in self._written_for.get(number, ()):
                if weight > known.get(slot, 0.0):
                    known[slot] = weight
        hope = np.zeros(self._anywhere.shape[1], dtype=np.float32)
        hope[list(known)] = list(known.values())
        return hope

    def _row(self, question: int, step: int) -> int:
        """Return the row of a question, with its outcomes aged to this step."""
        row = int(self._row_of[question])
        if row < 0:
            row = self._new_row(question)
            self._updated[row] = step
        elif (passed := step - int(self._updated[row])) > 0:
            outcomes = self._outcomes[:, row] * np.float32(_FRESHNESS**passed)
            outcomes[:, outcomes[1] < _FORGOTTEN] = 0
            self._outcomes[:, row] = outcomes
            self._updated[row] = step
        return row

    def _new_row(self, question: int) -> int:
        row = len(self._question_of)
        if row == _ROWS:  # evict the question that was rolled out longest ago
            row = int(np.argmin(self._updated[:row]))
            self._row_of[self._question_of[row]] = -1
            self._outcomes[:, row] = 0
            self._question_of[row] = question
        else:
            if row == len(self._updated):
                self._outcomes = np.pad(self._outcomes, ((0, 0), (0, max(64, row)), (0, 0)))
                self._updated = np.pad(self._updated, (0, max(64, row)))
            self._question_of.append(question)
        self._row_of[question] = row
        return row


def _packed(values: NDArray[np.generic], kind: str) -> str:
    """Encode an array as base64: as JSON numbers, its many cells would dominate a checkpoint's time."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode()


def _unpacked(text: str, kind: str) -> NDArray[Any]:
    """Decode what `_packed` returned, as a flat array. Raises ValueError."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype=kind)
