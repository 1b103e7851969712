"""Make texts from outside safe to show: no character can act on a terminal or on a page."""

from __future__ import annotations

import logging
import re
import traceback
import unicodedata
from typing import Final

# Invisible characters that Python counts as printable: fillers, variation selectors, an empty pattern.
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
)
_LINE_END: Final = re.compile(r"\r\n|[\r\x0b\x0c\x85\u2028\u2029]")


def visible(text: object, most: int | None = None) -> str:
    """Return the text with control and invisible characters written as code points.

    Keep line feeds and tabs. Cut after `most` characters and say how many are left out.
    """
    told = text if isinstance(text, str) else str(text)
    rest = len(told) - most if most is not None else 0
    if rest > 0:
        told = told[:most]
    if not (told.isascii() and told.isprintable()):
        told = "".join(map(_shown, _LINE_END.sub("\n", told)))
    return f"{told} [{rest} characters more]" if rest > 0 else told


def in_a_line(text: object, most: int | None = None) -> str:
    """Return the visible text in one line, without line feeds and tabs."""
    told = text if isinstance(text, str) else str(text)
    return visible(" ".join(told.split()), most)


def visible_record(record: logging.LogRecord) -> bool:
    """Filter log records: make the message and the traceback visible. Always return True."""
    try:
        told = record.getMessage()
    except Exception:  # arguments that do not fit the format; the handler reports that itself
        return True
    if (shown := visible(told)) != told:
        record.msg, record.args = shown, ()
    if record.exc_info and record.exc_info[1] is not None and not record.exc_text:
        # A formatter uses this text if it is set, and does not format the traceback itself.
        record.exc_text = visible("".join(traceback.format_exception(record.exc_info[1])).rstrip())
    return True


def _shown(char: str) -> str:
    if char in "\n\t" or char == "\u3000" or (char.isprintable() and not _UNSEEN.match(char)):
        return char
    # Joiners belong to emoji and to Indic scripts; alone they change nothing.
    if char in "\u200c\u200d" or unicodedata.category(char) == "Zs":
        return char
    return f"⟨U+{ord(char):04X}⟩"
