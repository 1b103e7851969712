"""Texts from outside as they may be shown: nothing in them can act on a terminal or on a page."""

from __future__ import annotations

import logging
import re
import traceback
import unicodedata
from typing import Final

# Letters, marks and a pattern that leave no trace (fillers, selectors), though they count as printable.
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
)
_LINE_END: Final = re.compile(r"\r\n|[\r\x0b\x0c\x85\u2028\u2029]")


def visible(text: object, most: int | None = None) -> str:
    """The text with every character that acts, or that nobody sees, written as its number.

    Line feeds and tabs stay. Longer than `most` characters it is cut, and says by how much.
    """
    told = text if isinstance(text, str) else str(text)
    rest = len(told) - most if most is not None else 0
    if rest > 0:
        told = told[:most]
    if not (told.isascii() and told.isprintable()):
        told = "".join(map(_shown, _LINE_END.sub("\n", told)))
    return f"{told} [{rest} characters more]" if rest > 0 else told


def in_a_line(text: object, most: int | None = None) -> str:
    """The same without line feeds and tabs."""
    told = text if isinstance(text, str) else str(text)
    return visible(" ".join(told.split()), most)


def visible_record(record: logging.LogRecord) -> bool:
    """A filter for a logger: what a log line quotes, and the errors below it, made visible."""
    try:
        told = record.getMessage()
    except Exception:  # the handler tells of a call that does not fit its arguments
        return True
    if (shown := visible(told)) != told:
        record.msg, record.args = shown, ()
    if record.exc_info and record.exc_info[1] is not None and not record.exc_text:
        # A formatter takes this text in place of one of its own.
        record.exc_text = visible("".join(traceback.format_exception(record.exc_info[1])).rstrip())
    return True


def _shown(char: str) -> str:
    if char in "\n\t" or char == "\u3000" or (char.isprintable() and not _UNSEEN.match(char)):
        return char
    # Joiners belong to emoji and to Indic scripts; alone they change nothing.
    if char in "\u200c\u200d" or unicodedata.category(char) == "Zs":
        return char
    return f"⟨U+{ord(char):04X}⟩"
