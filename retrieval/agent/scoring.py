"""The reward of an episode: exact match, sub-EM or F1 of the model's own answer against the gold answers.

All of them compare after SQuAD's normalisation: lower case, no punctuation, no articles. Pass the model's
own answer (`SearchEpisode.answer`), never a prompt or an observation.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, TypeAlias

from prompt_coevo.errors import DatasetError
from prompt_coevo.retrieval.agent.episode import SearchEpisode

Metric: TypeAlias = Literal["em", "f1", "sub_em"]

_ARTICLES: Final = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


def golds_of(truth: object, column: str) -> str | list[str]:
    """Return the gold answers in a dataset row: one text or several. Search-R1's data have them under
    `target`.

    Raises DatasetError if there are none; `column` names the place for the error.
    """
    if isinstance(truth, Mapping):
        truth = truth.get("target")
    if isinstance(truth, str):
        return truth
    if not isinstance(truth, Iterable):
        raise DatasetError(
            f"a row of the dataset has no gold answers; they belong in {column}, a text, a list of "
            'texts, or {"target": [...]}'
        )
    return [str(one) for one in truth]


def golds_of_label(label: str | Iterable[object]) -> str | list[str]:
    """Read the gold answers in a row's label: a text, several texts, or either as JSON."""
    if not isinstance(label, str):
        return [str(one) for one in label]
    try:
        found = json.loads(label)
    except (ValueError, RecursionError):
        return label
    return [str(one) for one in found] if isinstance(found, list) else label


def normalised(text: str) -> str:
    """Return SQuAD's normal form.

    A text of nothing but articles and punctuation ("The The", "?") keeps them. Otherwise it would equal the
    empty answer and be contained in every text.
    """
    lower = text.lower()
    bare = " ".join(_ARTICLES.sub(" ", lower.translate(_NO_PUNCTUATION)).split())
    return bare or " ".join(lower.split())


def exact_match(answer: str | None, golds: str | Iterable[str]) -> float:
    """Return 1 if the answer is one of the gold answers, else 0."""
    return _best(answer, golds, lambda found, gold: float(found == gold))


def sub_em(answer: str | None, golds: str | Iterable[str]) -> float:
    """Return 1 if a gold answer's words occur in a row in the answer, else 0. This favours long answers."""
    return _best(answer, golds, lambda found, gold: float(f" {gold} " in f" {found} "))


def f1(answer: str | None, golds: str | Iterable[str]) -> float:
    """Return the harmonic mean of precision and recall over words, for the best-fitting gold answer."""
    return _best(answer, golds, _word_f1)


METRICS: Final[dict[Metric, Callable[[str | None, str | Iterable[str]], float]]] = {
    "em": exact_match,
    "f1": f1,
    "sub_em": sub_em,
}


def score(episode: SearchEpisode, golds: str | Iterable[str], metric: Metric = "em") -> float:
    """Return the reward of an episode, 0 to 1; 0 without an answer."""
    return METRICS[metric](episode.answer, golds)


def _best(
    answer: str | None, golds: str | Iterable[str], compare: Callable[[str, str], float]
) -> float:
    """Return the best comparison of non-empty texts. Raises ValueError if there is no gold answer."""
    known = [golds] if isinstance(golds, str) else list(golds)
    if not known:
        raise ValueError("there is no gold answer to compare with; give at least one")
    found = normalised(answer or "")
    if not found:
        return 0.0
    return max(compare(found, gold) if (gold := normalised(one)) else 0.0 for one in known)


def _word_f1(found: str, gold: str) -> float:
    words, gold_words = found.split(), gold.split()
    same = sum((Counter(words) & Counter(gold_words)).values())
    return 2 * same / (len(words) + len(gold_words))
