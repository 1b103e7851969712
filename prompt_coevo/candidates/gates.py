"""Cheap checks on a candidate, before any rollout is spent on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence

from prompt_coevo.candidates.leaks import LeakGuard, shared_text, some_questions
from prompt_coevo.context import Context
from prompt_coevo.fences import OWN_TAG
from prompt_coevo.markers import hookimpl
from prompt_coevo.policy import Policy
from prompt_coevo.proposals import Reply
from prompt_coevo.types import Candidate

# For users' texts, which are not cleaned by `border.py`:
# control characters except tab and newlines, text direction marks, lone surrogates.
_FORBIDDEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
# Tokens rarely have more characters than this; longer texts are refused without counting tokens.
_MAX_CHARS_PER_TOKEN = 32


def rough_token_count(text: str) -> int:
    """Count words and punctuation marks, as an estimate where no tokenizer is available."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def refusal(
    text: str,
    *,
    finish_reason: str | None = None,
    parents: Sequence[str] = (),
    known: Collection[str] = (),
    required_tags: Iterable[str] = (),
    max_tokens: int | None = None,
    count_tokens: Callable[[str], int] = rough_token_count,
    leak_guard: LeakGuard | None = None,
    shared: str = "",
) -> str | None:
    """Return why a candidate's text must not be tried, by the first failing check; None if it may be.

    In this order: the reply was cut off (`finish_reason == "length"`); code fences do not close; control or
    text direction characters; one of our own tags that is neither in one of `parents` (a user's instruction
    may have it) nor in `required_tags`; empty; equal to a text in `known`; one of `required_tags` is
    missing; more than `max_tokens` tokens; a leak that is neither in one of `parents` (prompts may share a
    phrase with the user's instruction) nor in `shared`, the text common to many questions. Never raises.
    """
    required_tags = tuple(required_tags)
    if finish_reason == "length":
        return "the reply was cut off at the token limit"
    if text.count("```") % 2:
        return "a code fence does not close"
    if (forbidden := _FORBIDDEN.search(text)) is not None:
        return f"it contains the control character U+{ord(forbidden[0]):04X}"
    if (own := _own_tag(text, [*parents, *required_tags])) is not None:
        return f"it contains one of our own tags, {own}"
    if not text.strip():
        return "it is empty"
    if text in known:
        return "it equals a candidate that is already known"
    for tag in required_tags:
        if tag not in text:
            return f"the required tag {tag!r} is missing"
    if max_tokens is not None and _too_long(text, max_tokens, count_tokens):
        return f"it is longer than {max_tokens} tokens"
    if leak_guard is not None:
        allowed = "\n".join([*parents, shared])
        return leak_guard.find(text, allowed)
    return None


def _own_tag(text: str, allowed_in: Collection[str]) -> str | None:
    """Return the first of our tags in the text that is in none of the allowed texts."""
    for match in OWN_TAG.finditer(text):
        if not any(match[0] in other for other in allowed_in):
            return match[0]
    return None


def _too_long(text: str, max_tokens: int, count_tokens: Callable[[str], int]) -> bool:
    return len(text) > max_tokens * _MAX_CHARS_PER_TOKEN or count_tokens(text) > max_tokens


class Gates:
    """The checks of `gates.py`, with the limits from the settings."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settings = context.settings.gates
        self._shared = ""

    @hookimpl(tryfirst=True)
    def coevo_train_begin(self, policy: Policy) -> None:
        """Collect the text that questions share, before methods ask for their first candidates."""
        self._shared = shared_text(some_questions(policy), self._settings.leak_ngram)

    @hookimpl(tryfirst=True)
    def coevo_check_candidate(
        self,
        candidate: Candidate,
        parents: Sequence[Candidate],
        reply: Reply,
        known: Collection[str],
        leak_guard: LeakGuard,
    ) -> str | None:
        return refusal(
            candidate.text,
            finish_reason=reply.finish_reason,
            parents=[parent.text for parent in parents],
            known=known,
            required_tags=self._settings.required_tags,
            max_tokens=self._settings.max_candidate_tokens,
            count_tokens=self._context.count_tokens,
            leak_guard=leak_guard,
            shared=self._shared,
        )
