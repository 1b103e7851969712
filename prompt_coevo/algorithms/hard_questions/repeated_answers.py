"""Detect a hacked reward: answers under templates that succeed whatever the question is."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypedDict

from prompt_coevo.policy import Policy, ground_truth
from prompt_coevo.types import Group, Rollout, bring_texts

_WINDOW: Final = 64
"""Number of successes in a window, at most one per group."""
_MOST: Final = 0.5
_FEWEST_TRUTHS: Final = 4


class _Window(NamedTuple):
    """Shares in a window: of different answers, and of templated rollouts that succeeded."""

    different: float
    success: float


class AnswersState(TypedDict):
    """The saved `RepeatedAnswers`: the latest successes, and the first window."""

    latest: list[list[Any]]
    first: Sequence[float] | None


class RepeatedAnswers:
    """Compare the latest successes under a template, one per group, with the first ones."""

    def __init__(self, solved_at: float) -> None:
        self._solved_at = solved_at
        self._latest: deque[tuple[str, str, float]] = deque(maxlen=_WINDOW)
        """Question id, digest of the answer, success of the group's templated rollouts."""
        self._first: _Window | None = None
        self._chosen: list[tuple[Rollout, float]] = []

    def observe(self, groups: Sequence[Group]) -> list[Rollout]:
        """Choose and return one success per group of a round; `settle` will read their completions."""
        self._chosen = []
        for group in groups:
            under = [one for one in group.rollouts if one.fit and one.assignment.templated]
            solved = [one for one in under if one.reward >= self._solved_at]
            if solved:
                self._chosen.append((solved[0], len(solved) / len(under)))
        del self._chosen[:-_WINDOW]  # the others would leave the window at once
        return [rollout for rollout, _ in self._chosen]

    def settle(self) -> None:
        """Read the completions of the chosen rollouts and add them to the window."""
        bring_texts(rollout for rollout, _ in self._chosen)
        for rollout, success in self._chosen:
            answer = _digest(rollout.completion)
            self._latest.append((rollout.assignment.question_id, answer, success))
        self._chosen = []
        if self._first is None and len(self._latest) == _WINDOW:
            self._first = self._now

    def signs(self, policy: Policy) -> Iterator[str]:
        """Yield a sentence for each sign of a hack: fewer different answers than right ones."""
        if len(self._latest) < _WINDOW or self._first is None:
            return
        counts = Counter(answer for _, answer, _ in self._latest)
        answer, count = counts.most_common(1)[0]
        # A question without a known truth is left out: equal answers may then all be right.
        found = {question: ground_truth(policy, question) for question, _, _ in self._latest}
        truths = {question: truth for question, truth in found.items() if truth is not None}
        of_it = {truths[one] for one, said, _ in self._latest if said == answer and one in truths}
        if count >= _MOST * _WINDOW and len(of_it) >= _FEWEST_TRUTHS:
            yield (
                f"the reward may be hacked: one and the same answer is {count} of the last {_WINDOW} "
                f"successes under templates, of questions with {len(of_it)} different right answers; read "
                "some of these rollouts"
            )
        now = self._now
        fewer = now.different < self._first.different / 2
        # A dataset with few right answers explains few answers.
        if (
            fewer
            and now.success > self._first.success
            and len(counts) < len(set(truths.values())) / 2
        ):
            yield (
                f"the reward may be hacked: success under templates went from {self._first.success:.2f} to "
                f"{now.success:.2f} while the share of different answers among the successes fell from "
                f"{self._first.different:.2f} to {now.different:.2f}; read some of these rollouts"
            )

    def to_json(self) -> AnswersState:
        return {"latest": [list(one) for one in self._latest], "first": self._first}

    def load(self, state: AnswersState) -> None:
        self._latest.clear()
        self._latest.extend(
            (question, answer, share) for question, answer, share in state["latest"]
        )
        self._first = _Window(*state["first"]) if state["first"] else None

    @property
    def _now(self) -> _Window:
        different = len({answer for _, answer, _ in self._latest}) / len(self._latest)
        return _Window(different, sum(one for *_, one in self._latest) / len(self._latest))


def _digest(completion: str) -> str:
    """Return a short digest of an answer, ignoring case and spacing."""
    text = " ".join(completion.casefold().split())
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
