"""The questions by number: in the order that the policy names them in, late ones behind."""

from __future__ import annotations

from typing import Final

from prompt_coevo.algorithms.stream.evidence import Evidence
from prompt_coevo.algorithms.stream.likeness import Growing, LikenessFactory, Unlike, built
from prompt_coevo.algorithms.stream.lookalikes import tell_lookalikes
from prompt_coevo.context import Context
from prompt_coevo.policy import Policy
from prompt_coevo.types import Question

_AN_EPOCH: Final = 1_000
"""So many late questions count as an epoch, because in a stream that never repeats none ends."""


class Numbered:
    """Ids and numbers of the questions, and the evidence by number, which knows which are alike.

    When half of all questions are late (`learn`), all are compared anew, so comparing costs no more than a
    constant for each. Until then a late one is like those that a growing likeness finds, else like none.
    """

    def __init__(self, context: Context, make_likeness: LikenessFactory) -> None:
        self._context = context
        self._make_likeness = make_likeness
        self.ids: list[str] = []
        self.numbers: dict[str, int] = {}
        self._compared = 0
        self.late = 0
        """How many questions were late, so far in this run."""

    def begin(self, policy: Policy, compared: int | None) -> Evidence:
        """Evidence on what the policy knows now, of which the first so many questions are compared (None:
        all)."""
        self.ids, self.numbers = [], {}
        self.evidence = Evidence(0, Unlike())
        self._number(policy)
        self._compare(policy, len(self.ids) if compared is None else min(compared, len(self.ids)))
        self._join(policy, self._compared)
        return self.evidence

    def learn(self, policy: Policy) -> bool:
        """The policy knows more than before. Returns whether as many late ones as an epoch has are over."""
        known = len(self.ids)
        self._number(policy)
        if len(self.ids) >= 2 * self._compared:
            self._compare(policy, len(self.ids))
        else:
            self._join(policy, known)
        before, self.late = self.late, self.late + len(self.ids) - known
        return self.late // _AN_EPOCH > before // _AN_EPOCH

    @property
    def compared(self) -> int | None:
        """For a state: how many questions were compared, None if all were."""
        return None if self._compared == len(self.ids) else self._compared

    def _number(self, policy: Policy) -> None:
        # Anywhere among them: one that the host forgot and learns again keeps its number.
        for question_id in policy.question_ids():
            if question_id not in self.numbers:
                self.numbers[question_id] = len(self.ids)
                self.ids.append(question_id)
        self.evidence.make_room(len(self.ids))

    def _compare(self, policy: Policy, count: int) -> None:
        """One that the host has forgotten since is like none."""
        self._compared, known = count, set(policy.question_ids())
        questions = (
            policy.question(one) if one in known else Question(one, "") for one in self.ids[:count]
        )
        self._likeness = built(self._make_likeness, self._context, questions)
        self.evidence.compare_by(self._likeness, count)
        tell_lookalikes(self._context, self.evidence, count)

    def _join(self, policy: Policy, known: int) -> None:
        late = self.ids[known:]
        if late and isinstance(self._likeness, Growing):
            self._likeness.join(policy.question(one) for one in late)
            self.evidence.joined(len(self.ids))
