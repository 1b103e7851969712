"""Text prompts that are rendered chats: `tokenizer.apply_chat_template(messages, tokenize=False)`.

A template in front of such a text would stand outside the chat, where the policy ignores it. So this module
finds the parts of the text: it renders a few made-up chats by the tokenizer's chat template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeAlias

from prompt_coevo.errors import DatasetError
from prompt_coevo.placement import Message, Placement, Prompt, RenderedChat
from prompt_coevo.tokens import Tokenizer, special_tokens, tokenizer_of

Render: TypeAlias = Callable[[Sequence[Message], bool], str]
"""Render a chat as a text; True adds the opening of the assistant's turn."""

_SYSTEM: Final = "sentinelsystem"
_USER: Final = "sentineluser"
_ASSISTANT: Final = "sentinelassistant"
_LAST: Final = "sentinellast"
_CANDIDATE: Final = "sentinelcandidate"
_ADVICE: Final = (
    'give the trainer messages ([{"role": "user", "content": "text"}]) in place of rendered prompts'
)


@dataclass(frozen=True)
class ChatMarks:
    """The marks that a tokenizer's chat template puts around the parts of a chat.

    `begin` may precede the whole text. `user` opens a user's turn; the first of `ends` closes it. `system`
    opens a system message, and `system_end` stands between it and the first user's text; `system` is None
    if the template has no place for one. `several`: system messages can be placed in chats of several
    turns, too.
    """

    begin: str
    user: str
    ends: tuple[str, ...]
    system: str | None = None
    system_end: str = ""
    several: bool = False

    def read(self, text: str) -> RenderedChat | None:
        """Find the parts of a rendered chat. Return None if the text has no user's turn."""
        start = text.rfind(self.user)
        if start < 0:
            return None
        start += len(self.user)
        span = self._system_span(text)
        if span is not None and span[1] >= start:  # Llama 2 puts it inside the first user's turn
            start = span[1] + len(self.system_end)
        ends = [at for end in self.ends if (at := text.find(end, start)) >= 0]
        system = None if span is None else text[slice(*span)] or None
        return RenderedChat.of(text, start, min(ends, default=len(text)), system, self._with_system)

    def _system_span(self, text: str) -> tuple[int, int] | None:
        """Return the start and end of the system message's text, None if there is none."""
        if self.system is None or self.system == self.user:
            return None
        opening = len(text) - len(text.removeprefix(self.begin))
        if not text.startswith(self.system, opening):
            return None
        start = opening + len(self.system)
        end = text.find(self.system_end, start)
        return None if end < 0 else (start, end)

    def _with_system(self, text: str, instruction: str) -> str:
        """Insert an instruction as the system message, replacing an existing one."""
        if (span := self._system_span(text)) is not None:
            return text[: span[0]] + instruction + text[span[1] :]
        opening = len(text) - len(text.removeprefix(self.begin))
        fits = text.startswith(self.user, opening) and (self.several or text.count(self.user) == 1)
        if self.system is None or not fits:
            raise DatasetError(
                "a prompt is a rendered chat in which no system message can be placed; set "
                f'placement.instruction = "prefix", or {_ADVICE}'
            )
        rest = text[opening + len(self.user) :]
        return f"{text[:opening]}{self.system}{instruction}{self.system_end}{rest}"


def find_marks(render: Render, special: Collection[str], begin: str = "") -> ChatMarks | None:
    """Find the marks of a chat template by rendering made-up chats.

    `special` are the tokenizer's special tokens, `begin` is its beginning-of-text token. Return None if the
    marks cannot be found, or if placing a template by them differs from rendering it in a message.
    """
    user, assistant = _message("user", _USER), _message("assistant", _ASSISTANT)
    several = [user, assistant, _message("user", _LAST)]
    try:
        bare, end = _around(render([user], True).removeprefix(begin), _USER)
        _, answered = _around(render([user, assistant], False), _ASSISTANT)
        between, _ = _around(_around(render(several, True), _ASSISTANT)[1], _LAST)
    except Exception:  # a chat template is third-party code
        return None
    opening = _without_shared_beginning(between, answered, special)
    opening = next((opening[n:] for n in range(len(opening)) if bare.endswith(opening[n:])), "")
    if begin and opening.startswith(begin):  # some tokenizers declare `<|im_start|>` as this token
        return find_marks(render, special)
    if not opening.strip() or not end.strip():
        return None
    closing = [mark for mark in special if mark in end]
    ends = (end.rstrip(), *sorted(closing, key=end.index)[:1])
    marks = ChatMarks(begin, opening, ends)
    if not _places_alike(marks, render, [[user], several], template=_CANDIDATE):
        return None
    return _with_system_marks(marks, render, several)


def _with_system_marks(marks: ChatMarks, render: Render, several: Sequence[Message]) -> ChatMarks:
    """Add the marks of the system message, if the chat template has a place for one."""
    system, user = _message("system", _SYSTEM), several[0]
    try:
        before, rest = _around(render([system, user], True).removeprefix(marks.begin), _SYSTEM)
        between, _ = _around(rest, _USER)
    except Exception:  # Gemma's template, for example, raises on system messages
        return marks
    found = replace(marks, system=before, system_end=between)
    folded = before == marks.user  # an existing system message looks like the user's own text
    with_one = [] if folded else [[system, user]]
    if not between or not _places_alike(found, render, [[user], *with_one], instruction=_CANDIDATE):
        return marks
    more = [several] if folded else [several, [system, *several]]
    found_everywhere = replace(found, several=True)
    if _places_alike(found_everywhere, render, more, instruction=_CANDIDATE):
        return found_everywhere
    return found


def _places_alike(
    marks: ChatMarks,
    render: Render,
    chats: Sequence[Sequence[Message]],
    *,
    instruction: str | None = None,
    template: str | None = None,
) -> bool:
    """Check that placing a candidate in a rendered chat equals rendering the chat with the candidate."""
    placement = Placement()
    for chat in chats:
        try:
            placed = placement.place(chat, instruction, template)
            wanted = render(placed, True) if not isinstance(placed, str) else placed
            parts = marks.read(render(chat, True))
            if parts is None or placement.place(parts, instruction, template) != wanted:
                return False
        except Exception:
            return False
    return True


class ChatReader:
    """A function that turns rendered chats into `RenderedChat` and returns other prompts unchanged.

    `processing_class` is a tokenizer or processor of transformers.
    """

    def __init__(self, processing_class: Tokenizer) -> None:
        self._processing = processing_class

    def __call__(self, prompt: Prompt) -> Prompt:
        """Return a RenderedChat for a text with a user's turn.

        Raise DatasetError for a text that has marks of the chat template but no user's turn.
        """
        if not isinstance(prompt, str):
            return prompt
        marks, telling = self._marks
        mark = next((mark for mark in telling if mark in prompt), None)
        if mark is None:
            return prompt
        if marks is None or (chat := marks.read(prompt)) is None:
            raise DatasetError(
                f"prompts are rendered already (one holds {mark!r}), but the user's turn, where a template "
                f"goes, is not found in it; {_ADVICE}"
            )
        return chat

    @cached_property  # lazy: a dataset of messages does not need it
    def _marks(self) -> tuple[ChatMarks | None, tuple[str, ...]]:
        """The chat template's marks, and the marks by which a rendered chat is recognised."""
        tokenizer = tokenizer_of(self._processing)
        begin, end = (getattr(tokenizer, f"{name}_token", None) or "" for name in ("bos", "eos"))
        if not getattr(self._processing, "chat_template", None):
            return None, ()
        try:
            rendered = self._render([_message("user", _USER)], False)
        except Exception:  # a chat template is third-party code
            return None, ()
        special = sorted(set(special_tokens(self._processing).values()), key=len, reverse=True)
        marks = find_marks(self._render, special, begin)
        telling = [mark for mark in special if mark in rendered and mark not in (begin, end)]
        return marks, tuple(telling if marks is None else [marks.user.strip(), *telling])

    def _render(self, messages: Sequence[Message], opens: bool) -> str:
        return str(
            self._processing.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=opens
            )
        )


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def _around(text: str, part: str) -> tuple[str, str]:
    """Return the texts before and after a part. Raise ValueError unless it occurs exactly once."""
    before, found, after = text.partition(part)
    if not found or part in after:
        raise ValueError(f"{part} is not in it once")
    return before, after


def _without_shared_beginning(text: str, other: str, special: Collection[str]) -> str:
    """Remove the common beginning of two texts, in whole marks: `<|end|>` and `<|user|>` share no `<|`."""
    pattern = "|".join(map(re.escape, special))
    cut = (lambda one: re.split(f"({pattern})", one)) if pattern else (lambda one: [one])
    pieces, others = cut(text), cut(other)
    shared = 0
    while shared < min(len(pieces), len(others)) and pieces[shared] == others[shared]:
        shared += 1
    return "".join(pieces[shared:])
