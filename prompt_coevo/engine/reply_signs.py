"""Warn once if the reflection model's first replies contain no candidate that passes the gates."""

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
    """Count what the first replies contain instead of a candidate, until the first one is accepted."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._found: Counter[str] = Counter()
        self._refused = self._of_reply = 0
        self._looks = True

    def look_no_more(self) -> None:
        """Stop examining: a resumed run was examined when it began."""
        self._looks = False

    @hookimpl
    def coevo_after_candidate_checked(
        self, candidate: Candidate | None, proposal: Proposal, reason: str | None
    ) -> None:
        if not self._looks:
            return
        if candidate is not None and candidate.text.strip() and reason is None:
            self.look_no_more()
            return
        self._of_reply += 1
        if self._of_reply < len(proposal.texts):  # the others of this reply follow
            return
        self._of_reply = 0
        if candidate is None:
            kind = _held(proposal.reply)
        elif not candidate.text.strip():
            kind = "an empty candidate"
        elif proposal.reply.finish_reason == "length":
            kind = "cut off at reflection.max_tokens"
        else:
            self._refused += 1
            kind = f"refused because {str(reason).partition(':')[0]}"  # behind it is a text
        self._found[kind] += 1
        if self._found.total() == REPLIES:
            self.look_no_more()
            self._warn(", ".join(f"{count} {kind}" for kind, count in self._found.most_common()))

    def _warn(self, held: str) -> None:
        if self._refused > REPLIES / 2:
            self._context.warn_early(
                "replies_refused",
                f"the first {REPLIES} replies of the reflection model contain no candidate that passes the "
                f"gates ({held}); ask it for another kind of text, or change the settings in gates",
            )
            return
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
