"""Find candidates in a reply."""

from __future__ import annotations

import re

_THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


def extract_tagged(reply: str, tag: str) -> tuple[tuple[str, ...], str | None]:
    """Return the stripped texts between `<tag>` and `</tag>`, and the problem of an unusable reply.

    `tag` is a regular expression, which allows numbered tags. A leading `<think>` block is skipped. A reply
    with missing, nested or unclosed tags is unusable as a whole: no text is returned. Never raise.
    """
    body = _THINKING.sub("", reply, count=1)
    texts: list[str] = []
    opened: re.Match[str] | None = None
    for match in re.finditer(rf"<(/?)({tag})>", body):
        closing = match[1] == "/"
        if closing != (opened is not None) or (opened and opened[2] != match[2]):
            return (), "its tags are nested or do not match"
        if opened is not None:
            texts.append(body[opened.end() : match.start()].strip())
        opened = None if closing else match
    if opened is not None:
        return (), "its tags do not close"
    if not texts:
        return (), "it contains no candidate in the expected tags"
    return tuple(texts), None
