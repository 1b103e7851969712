"""Training questions and ground truths must not stand in a candidate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from prompt_coevo.placement import question_text
from prompt_coevo.settings.gates import GateSettings
from prompt_coevo.types import Question

_WORD = re.compile(r"\w+")


class LeakGuard:
    """Finds training questions and ground truths in a candidate.

    A candidate leaks if it shares `ngram` consecutive words with a question (case and punctuation
    aside), or holds a ground truth of at least `min_truth_chars` characters verbatim, case and spaces
    included. Shorter truths such as "2" would reject everything; a question of fewer words than `ngram`
    is not looked for.
    """

    def __init__(
        self,
        questions: Iterable[str] = (),
        ground_truths: Iterable[str] = (),
        *,
        ngram: int = 8,
        min_truth_chars: int = 12,
    ) -> None:
        self._ngram = ngram
        self._seen = {gram for text in questions for gram in self._grams(text)}
        self._truths = {
            truth.strip() for truth in ground_truths if len(truth.strip()) >= min_truth_chars
        }

    def find(self, text: str, allowed: str = "") -> str | None:
        """What the text leaks, in words, or None. What stands in `allowed` is no leak."""
        known = set(self._grams(allowed))
        for gram in self._grams(text):
            if gram in self._seen and gram not in known:
                return f"it copies {self._ngram} words of a training question: {' '.join(gram)!r}"
        if any(truth in text and truth not in allowed for truth in self._truths):
            return "it contains the ground truth of a training question"
        return None

    def _grams(self, text: str) -> Iterator[tuple[str, ...]]:
        words = _WORD.findall(text.lower())
        for start in range(len(words) - self._ngram + 1):
            yield tuple(words[start : start + self._ngram])


def leak_guard(questions: Iterable[Question], gates: GateSettings) -> LeakGuard:
    """A guard that knows these questions."""
    known = list(questions)
    return LeakGuard(
        [question_text(question.prompt) for question in known],
        [question.ground_truth or "" for question in known],
        ngram=gates.leak_ngram,
        min_truth_chars=gates.leak_truth_chars,
    )
