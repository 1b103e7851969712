"""Extract the policy's own answer from a whole text, to compare with the episode's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from prompt_coevo.retrieval.agent.episode import INVALID_TURN, Answer, parse_turn

# Decoding may put spaces around punctuation.
_HINT: Final = r"\s*".join(map(re.escape, re.findall(r"\w+|[^\w\s]", INVALID_TURN)))
_NOT_THE_MODELS: Final = re.compile(rf"<information>.*?(?:</information>|\Z)|{_HINT}", re.DOTALL)


def answer_of(spans: Sequence[str]) -> str | None:
    """Return the answer in the model's own turns, or None. In each turn the first action counts."""
    actions = map(parse_turn, spans)
    return next((action.text for action in actions if isinstance(action, Answer)), None)


def own_spans(completion: str) -> list[str]:
    """Return the model's own turns in a whole completion, as `SearchEpisode` builds it.

    Without the prompt, and decoded so that the tags are still there. Text that the model puts into
    `<information>` itself is left out, too.
    """
    return [span for span in _NOT_THE_MODELS.split(completion) if span.strip()]
