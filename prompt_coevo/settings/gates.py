"""Limits and checks for candidates: the section `gates`."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from prompt_coevo.registry import unknown
from prompt_coevo.settings.section import Section


class GateSettings(Section):
    """Checks that a candidate must pass before any rollout is spent on it."""

    active: tuple[str, ...] = ("text",)
    """The gates, by name: the built-in `text`, those of installed packages, or `module:attribute` of a
    factory. Adapters add gates of their own."""
    max_candidate_tokens: int = Field(default=1024, ge=1)
    """Longest candidate, in tokens of the policy."""
    required_tags: tuple[str, ...] = ()
    """Texts that every candidate must contain."""
    leak_ngram: int = Field(default=8, ge=2)
    """A candidate must not share this many consecutive words with a question that its proposer saw or that
    it is tried on, nor contain the whole of a shorter question of at least four words."""
    leak_truth_chars: int = Field(default=12, ge=1)
    """A candidate must not contain the ground truth of such a question, however it is written, if that has
    at least this many letters and digits; nor a shorter one together with words of its question."""

    def problems(self) -> Iterator[str]:
        yield from unknown("gates", self.active, "gates.active")
