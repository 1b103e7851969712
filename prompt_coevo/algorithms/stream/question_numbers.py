"""Number the questions in the order in which the policy lists them; late questions follow at the end."""

from __future__ import annotations

from typing import Final

from prompt_coevo.algorithms.stream.evidence import Evidence
from prompt_coevo.algorithms.stream.likeness import Growing, LikenessFactory, Unlike, built
from prompt_coevo.algorithms.stream.lookalikes import tell_lookalikes
from prompt_coevo.context import Context
from prompt_coevo.policy import Policy
from prompt_coevo.types import Question

_AN_EPOCH: Final = 1_000
"""So many late questions count as an epoch: a stream that never repeats a question has no real one."""


class Numbered:
    """Ids and numbers of the questions, and the evidence, which knows by number which are alike.

    When half of all questions are late (see `learn`), all are compared again; doubling keeps the cost per
    question constant. Until then a late question is only like those that a `Growing` likeness finds for it.
    """

    def __init__(self, context: Context, make_likeness: LikenessFactory) -> None:
        self._context = context
        self._make_likeness = make_likeness
        self.ids: list[str] = []
        self.numbers: dict[str, int] = {}
        self._compared = 0
        self.late = 0
        """Late questions so far in this run."""

    def begin(self, policy: Policy, compared: int | None) -> Evidence:
        """Number the policy's questions and return empty evidence about them.

        The first `compared` (None: all) are compared with each other, the others are late questions.
        """
        self.ids, self.numbers = [], {}
        self.evidence = Evidence(0, Unlike())
        self._number(policy)
        self._compare(policy, len(self.ids) if compared is None else min(compared, len(self.ids)))
        self._join(policy, self._compared)
        return self.evidence

    def learn(self, policy: Policy) -> bool:
        """Number the policy's new questions. Return True if that completes an epoch of late ones."""
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
        """Return for a state how many questions were compared; None if all were."""
        return None if self._compared == len(self.ids) else self._compared

    def _number(self, policy: Policy) -> None:
        # New ones may be anywhere in the list. One that the trainer forgot and learns again keeps its
        # number.
        for question_id in policy.question_ids():
            if question_id not in self.numbers:
                self.numbers[question_id] = len(self.ids)
                self.ids.append(question_id)
        self.evidence.make_room(len(self.ids))

    def _compare(self, policy: Policy, count: int) -> None:
        """Compare the first `count` questions. Those that the trainer has forgotten are like no other."""
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
