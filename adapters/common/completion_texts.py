"""Completions as texts, as the engine judges them and shows them to reflection models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from prompt_coevo.adapters.common.questions import is_parts
from prompt_coevo.placement import Message, question_text

Completion: TypeAlias = str | Sequence[Message]


def completion_text(completion: Completion) -> str:
    """Return a completion as one text: the string itself, or the messages' contents."""
    if isinstance(completion, str):
        return completion
    if len(completion) == 1:
        return _content(completion[0])
    return "\n".join(f"{message['role']}: {_content(message)}" for message in completion)


def _content(message: Message) -> str:
    """Return a message's text. A list from a tool, such as table rows, is written as Python prints it."""
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    if not is_parts(content):
        return str(content)
    return question_text([{"role": "user", "content": content}])
