"""Completions as texts: what the engine judges and shows to reflection models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from prompt_coevo.adapters.common.questions import is_parts
from prompt_coevo.placement import Message, question_text

Completion: TypeAlias = str | Sequence[Message]


def completion_text(completion: Completion) -> str:
    """A completion as one text: the string, or the messages' contents."""
    if isinstance(completion, str):
        return completion
    if len(completion) == 1:
        return _content(completion[0])
    return "\n".join(f"{message['role']}: {_content(message)}" for message in completion)


def _content(message: Message) -> str:
    """A message's text. A list that a tool gave, such as rows of a table, is written as it prints."""
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    if not is_parts(content):
        return str(content)
    return question_text([{"role": "user", "content": content}])
