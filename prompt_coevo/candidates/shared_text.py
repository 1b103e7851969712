"""What many questions say alike: the format of an answer, a preamble, the labels to choose from.

It tells nothing of any one question, so it may stand in a candidate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from prompt_coevo.candidates.normal_words import normal_line
from prompt_coevo.placement import question_text
from prompt_coevo.policy import Policy
from prompt_coevo.types import Question

_SAMPLE: Final = 512
_FEWEST: Final = 3
_SHARE: Final = 0.05


def some_questions(policy: Policy) -> list[Question]:
    """At most 512 of them, the same ones in whatever order the dataset is."""
    ids = sorted(policy.question_ids())
    return [policy.question(one) for one in ids[:: -(-len(ids) // _SAMPLE) or 1]]


def shared_text(questions: Sequence[Question], ngram: int) -> str:
    """Each run of `ngram` words or more, and each ground truth, that at least three of the questions and
    one in twenty have, on a line of its own, in normal form."""
    least = max(_FEWEST, _SHARE * len(questions))
    texts = [normal_line(question_text(one.prompt)).decode().split() for one in questions]
    grams = Counter(gram for words in texts for gram in set(_grams(words, ngram)))
    common = {gram for gram, count in grams.items() if count >= least}
    lines = {run: None for words in texts for run in _runs(words, ngram, common)}
    truths = Counter(normal_line(one.ground_truth or "").decode() for one in questions)
    lines.update((truth, None) for truth, count in truths.items() if count >= least)
    return "\n".join(lines)


def _grams(words: Sequence[str], ngram: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[place:] for place in range(ngram)), strict=False)


def _runs(words: Sequence[str], ngram: int, common: set[tuple[str, ...]]) -> Iterator[str]:
    """The longest runs of words all of whose n-grams are common."""
    first = None
    for place, gram in enumerate([*_grams(words, ngram), ()]):
        if gram in common:
            first = place if first is None else first
        elif first is not None:
            yield " ".join(words[first : place - 1 + ngram])
            first = None
