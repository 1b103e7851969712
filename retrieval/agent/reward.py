"""The reward of an episode: how well the model's own answer fits, whatever prompt and passages say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final

from prompt_coevo.retrieval.agent.episode import INVALID_TURN, Answer, SearchEpisode, parse_turn
from prompt_coevo.retrieval.agent.scoring import METRICS, Metric

# Decoding may put spaces around punctuation.
_HINT: Final = r"\s*".join(map(re.escape, re.findall(r"\w+|[^\w\s]", INVALID_TURN)))
_NOT_THE_MODELS: Final = re.compile(rf"<information>.*?(?:</information>|\Z)|{_HINT}", re.DOTALL)


def score(episode: SearchEpisode, golds: str | Iterable[str], metric: Metric = "em") -> float:
    """The reward of an episode, 0 to 1; without an answer it is 0."""
    return METRICS[metric](episode.answer, golds)


def golds_of_label(label: str | Iterable[object]) -> str | list[str]:
    """The gold answers in a row's label: a text, several texts, or either as JSON."""
    if not isinstance(label, str):
        return [str(one) for one in label]
    try:
        found = json.loads(label)
    except (ValueError, RecursionError):
        return label
    return [str(one) for one in found] if isinstance(found, list) else label


def answer_of(spans: Sequence[str]) -> str | None:
    """The answer in the model's own turns, None if there is none.

    For reward functions that have no episode. In each turn the first action counts, as in an episode.
    """
    actions = map(parse_turn, spans)
    return next((action.text for action in actions if isinstance(action, Answer)), None)


def own_spans(completion: str) -> list[str]:
    """The model's own turns in the text of a whole completion, as `SearchEpisode` builds it.

    For reward functions that see nothing but the text: without the prompt, and decoded so that the
    tags are still there. Text that the model puts into `<information>` itself is left out, too.
    """
    return [span for span in _NOT_THE_MODELS.split(completion) if span.strip()]
