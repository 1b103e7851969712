"""Warn once if the reflection model's first replies contain no candidates."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from prompt_coevo.context import Context
from prompt_coevo.markers import hookimpl
from prompt_coevo.proposals import Proposal, Reply
from prompt_coevo.types import Candidate

REPLIES: Final = 8
"""The number of replies that are examined."""
_THINKING: Final = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)
_WITHOUT_TEXT: Final = {
    "tool_calls": "tool calls alone",
    "function_call": "tool calls alone",
    "content_filter": "refused",
    "refusal": "refused",
    "reasoning": "reasoning alone",
    "length": "cut off at reflection.max_tokens before any text",
}


class ReplySigns:
    """Count what the first replies contain instead of a candidate, until the first candidate comes."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._found: Counter[str] = Counter()
        self._looks = True

    def look_no_more(self) -> None:
        """Stop examining: a resumed run was examined when it began."""
        self._looks = False

    @hookimpl
    def coevo_after_candidate_checked(
        self, candidate: Candidate | None, proposal: Proposal
    ) -> None:
        if not self._looks:
            return
        if candidate is not None and candidate.text.strip():
            self.look_no_more()
            return
        self._found["an empty candidate" if candidate else _held(proposal.reply)] += 1
        if self._found.total() == REPLIES:
            self.look_no_more()
            held = ", ".join(f"{count} {kind}" for kind, count in self._found.most_common())
            self._context.warn_early(
                "replies_without_text",
                f"the first {REPLIES} replies of the reflection model contain no candidate ({held}); let "
                "it answer with plain text in the tags that the prompt asks for, without tools, and with "
                "enough reflection.max_tokens for text after its reasoning",
            )


def _held(reply: Reply) -> str:
    """Classify a reply without a candidate."""
    text = reply.text or ""
    if not text.strip():
        return _WITHOUT_TEXT.get(reply.finish_reason or "", "empty")
    if not _THINKING.sub("", text).strip():
        return "reasoning alone"
    return "text without a candidate"
