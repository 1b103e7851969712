"""Keep rollouts that just failed in training for reflection, which needs no rollouts of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from prompt_coevo.types import EMPTY_TEMPLATE, Rollout, bring_texts

_QUESTIONS: Final = 1_024
_PER_QUESTION: Final = 3
_LONGEST: Final = 8_000
"""Characters of a completion; a checkpoint holds up to 3 072 completions."""


class Failure(NamedTuple):
    completion: str
    reward: float


class Failures:
    """The latest failed completions of a question, one per template.

    Holds at most 1 024 questions, those that failed last, and 3 templates each; the empty one is never
    evicted. A completion of more than 8 000 characters loses its middle.
    """

    def __init__(self) -> None:
        self._by_question: dict[int, dict[str, Failure]] = {}
        self._new: dict[tuple[int, str], Rollout] = {}

    def __contains__(self, question: int) -> bool:
        return question in self._by_question

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_question)

    def of(self, question: int) -> Mapping[str, Failure]:
        """Return a question's failures by template id, the latest one last."""
        return self._by_question[question]

    def add(self, question: int, template_id: str, rollout: Rollout) -> None:
        """Add a failed rollout. Its completion is read later, by `settle`."""
        known = self._by_question.pop(question, {})
        self._by_question[question] = known  # reinserted, so the order is by latest failure
        known.pop(template_id, None)
        known[template_id] = Failure("", rollout.reward)
        self._new[question, template_id] = rollout
        while len(known) > _PER_QUESTION:
            del known[next(name for name in known if name != EMPTY_TEMPLATE.id)]
        while len(self._by_question) > _QUESTIONS:
            del self._by_question[next(iter(self._by_question))]

    def solved(self, question: int, template_id: str) -> None:
        """Forget the question's failure under this template, which solves it now."""
        known = self._by_question.get(question, {})
        known.pop(template_id, None)
        if not known:
            self._by_question.pop(question, None)

    def settle(self, also: Iterable[Rollout] = ()) -> None:
        """Read the completions of the new failures that are still kept, in one call with `also`."""
        there = {
            (question, name): rollout
            for (question, name), rollout in self._new.items()
            if name in self._by_question.get(question, {})
        }
        bring_texts([*there.values(), *also])
        for (question, name), rollout in there.items():
            failure = Failure(_shortened(rollout.completion), rollout.reward)
            self._by_question[question][name] = failure
        self._new.clear()

    def to_json(self, ids: Sequence[str]) -> list[Any]:
        return [
            [ids[question], [[name, *failure] for name, failure in known.items()]]
            for question, known in self._by_question.items()
        ]

    def load(self, state: Sequence[Any], numbers: Mapping[str, int]) -> None:
        self._by_question = {
            numbers[question_id]: {name: Failure(text, reward) for name, text, reward in known}
            for question_id, known in state
            if question_id in numbers
        }


def _shortened(completion: str) -> str:
    if len(completion) <= _LONGEST:
        return completion
    return f"{completion[: _LONGEST // 3]}\n[...]\n{completion[-2 * _LONGEST // 3 :]}"
