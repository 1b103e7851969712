"""The tags of a search agent's protocol: parse them in a turn, and neutralise them in other texts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, TypeAlias

ActionName: TypeAlias = Literal["search", "answer"]
UnclosedThink: TypeAlias = Literal["search", "thought"]

STOP_STRINGS: Final = ("</search>", "</answer>")
"""Where sampling stops; the stop string stays in the output."""

_TAG: Final = re.compile(r"<(/?)(think|search|answer|information)>")
_LIKE_A_TAG: Final = re.compile(
    r"<(\s*/?\s*(?:think|search|answer|information)\b[^<>]*)>", re.IGNORECASE
)


class TaggedAction(NamedTuple):
    """The body of the first action in a turn."""

    name: ActionName
    body: str


def first_action(text: str, *, unclosed_think: UnclosedThink = "search") -> TaggedAction | None:
    """Return the first `<search>` or `<answer>` pair outside of `<think>`, or None.

    A `<think>` that is never closed lasts to the end. A search in it counts unless `unclosed_think` is
    "thought"; an answer in it never does. A `</think>` without an opening tag ends a thought that began
    before the text. An answer inside an `<information>` that the policy wrote does not count either, closed
    or not. A pair holds no other tag: in `<search> the <search> q </search>` the inner pair counts. Text
    after the pair is ignored.
    """
    tags = list(_TAG.finditer(text))
    thoughts = [tag for tag in tags if tag[2] == "think"]
    thinking, informing = bool(thoughts and thoughts[0][1]), False
    last_closed = max((tag.start() for tag in tags if tag[0] == "</think>"), default=-1)
    opened: re.Match[str] | None = None
    for tag in tags:
        closes, name = bool(tag[1]), tag[2]
        unclosed = tag.start() > last_closed and unclosed_think == "search"
        if name == "think":
            thinking, opened = not closes, None
        elif (thinking and not (unclosed and name == "search")) or (informing and name == "answer"):
            opened = None
        elif name == "information":
            informing, opened = not closes, None
        elif not closes:
            opened = tag
        else:
            if opened is not None and opened[2] == name and name in ("search", "answer"):
                body = text[opened.end() : tag.start()].strip()
                return TaggedAction("search" if name == "search" else "answer", body)
            opened = None
    return None


def neutralise(text: str, reserved: Iterable[str] = ()) -> str:
    """Return the text without any tag of the protocol or `reserved` string.

    `<search>` becomes `[search]`; a reserved string, such as a chat template's end of turn, gets a space
    after its first character. Nothing is removed, so no new tag can form.
    """
    text = _LIKE_A_TAG.sub(r"[\1]", text)
    for word in reserved:
        if len(word) > 1:
            text = text.replace(word, f"{word[0]} {word[1:]}")
    return text
