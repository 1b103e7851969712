"""The replay buffer: INSPO section 3.2."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass
from typing import TypedDict

import numpy as np


@dataclass(frozen=True)
class Experience:
    """One rollout: the parts needed of the tuple `(I, q, τ, r)` of section 3.2."""

    question_id: str
    completion: str
    reward: float


class BufferState(TypedDict):
    """The saved `ReplayBuffer`: the question of every rollout, and the fields of each failure."""

    questions: list[str]
    failing_step: int
    failures: list[tuple[str, str, float]]


class ReplayBuffer:
    """The source of questions and failures for verification and reflection, bounded in rollouts and bytes.

    It remembers the question of every rollout, up to `max_rollouts`, and the completions of the failures of
    the newest step that had any. Older completions are never read, since reflection is on the newest
    policy's failures. Adding a rollout costs the same at any size.
    """

    def __init__(
        self,
        *,
        max_rollouts: int = 100_000,
        max_bytes: int = 16_000_000,
        solved_at: float = 1.0,
    ) -> None:
        self._max_bytes = max_bytes
        self._solved_at = solved_at
        self._questions: deque[str] = deque(maxlen=max_rollouts)
        self._counts: dict[str, int] = {}
        self._failures: deque[Experience] = deque()
        self._failing_step = -1
        self._bytes = 0

    def __len__(self) -> int:
        """The number of rollouts remembered."""
        return len(self._questions)

    @property
    def bytes(self) -> int:
        """Bytes of the completions kept."""
        return self._bytes

    def add(self, step: int, rollouts: Sequence[Experience]) -> None:
        """Add the rollouts of one step and evict the oldest ones if there are too many."""
        for rollout in rollouts:
            self._count(rollout.question_id)
            if rollout.reward < self._solved_at:
                self._keep(step, rollout)

    def keep_only(self, known: Collection[str]) -> None:
        """Forget the rollouts of all other questions."""
        kept = [question_id for question_id in self._questions if question_id in known]
        failures = [failure for failure in self._failures if failure.question_id in known]
        if len(kept) < len(self._questions) or len(failures) < len(self._failures):
            rows = [astuple(failure) for failure in failures]
            self.load({"questions": kept, "failing_step": self._failing_step, "failures": rows})

    def failures(self, count: int, rng: np.random.Generator) -> list[Experience]:
        """Draw up to `count` failures of the newest step that had any.

        They are of different questions as far as there are enough.
        """
        # Sorted, so the draw does not depend on the order in which rollouts came back.
        known = sorted(self._failures, key=astuple)
        drawn = [known[place] for place in rng.permutation(len(known))]
        first_of: dict[str, Experience] = {}
        for failure in drawn:
            first_of.setdefault(failure.question_id, failure)
        others = [failure for failure in drawn if first_of[failure.question_id] is not failure]
        return [*first_of.values(), *others][:count]

    @property
    def question_ids(self) -> set[str]:
        """All questions of the remembered rollouts."""
        return self._counts.keys() | {failure.question_id for failure in self._failures}

    def questions(self, count: int, rng: np.random.Generator) -> list[str]:
        """Draw up to `count` distinct questions uniformly (`D_B`)."""
        ids = sorted(self._counts)
        return [ids[place] for place in rng.permutation(len(ids))[:count]]

    def to_json(self) -> BufferState:
        return {
            "questions": list(self._questions),
            "failing_step": self._failing_step,
            "failures": [astuple(failure) for failure in self._failures],
        }

    def load(self, state: BufferState) -> None:
        self._questions.clear()
        self._counts.clear()
        self._drop_failures()
        for question_id in state["questions"]:
            self._count(question_id)
        for failure in state["failures"]:
            self._keep(state["failing_step"], Experience(*failure))

    def _count(self, question_id: str) -> None:
        if len(self._questions) == self._questions.maxlen:
            oldest = self._questions[0]
            self._counts[oldest] -= 1
            if not self._counts[oldest]:
                del self._counts[oldest]
        self._questions.append(question_id)
        self._counts[question_id] = self._counts.get(question_id, 0) + 1

    def _keep(self, step: int, failure: Experience) -> None:
        if step != self._failing_step:
            self._drop_failures()
            self._failing_step = step
        self._failures.append(failure)
        self._bytes += _size(failure)
        while self._bytes > self._max_bytes and len(self._failures) > 1:
            self._bytes -= _size(self._failures.popleft())

    def _drop_failures(self) -> None:
        self._failures.clear()
        self._bytes = 0


def _size(failure: Experience) -> int:
    return len(failure.completion.encode("utf-8", "replace"))
