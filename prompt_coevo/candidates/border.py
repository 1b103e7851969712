"""Clean every text written by a language model, before any gate sees it.

Invisible noise is removed, texts that hide something are refused, and the accepted text is in normal form:
NFC, with line feeds only. Texts written by the user do not pass through here and are never changed.

- *Turned into a line feed*: CR LF, CR, vertical tab, form feed, U+0085, U+2028, U+2029.
- *Removed*: invisible characters: zero-width and other format characters, byte order marks, soft hyphens,
  fillers. Joiners (U+200C, U+200D) stay between two non-ASCII letters or symbols, where Indic scripts,
  Persian and emoji need them. The variation selectors U+FE0E and U+FE0F stay after a symbol; all other
  variation selectors are removed.
- *Refused*: characters that make a text display as another one or not at all: text direction marks, tag
  characters (and with them the flags of England, Scotland and Wales), other control characters, lone
  surrogates, private use characters, and characters unknown to this Python's Unicode, except emoji.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

_LINE_END: Final = re.compile(r"\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_UNSEEN_LETTERS: Final = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
"""Fillers, the grapheme joiner, Mongolian variants: invisible, but not of the format category (Cf)."""
_JOINERS: Final = "\u200c\u200d"
_EMOJI_STYLE: Final = "\ufe0e\ufe0f"
_KEYCAP: Final = "\u20e3"
_DIRECTION: Final = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_TAG: Final = re.compile(r"[\U000e0000-\U000e007f]")
_SELECTOR: Final = re.compile(r"[\ufe00-\ufe0d\U000e0100-\U000e01ef]")
_SEEN_FORMATS: Final = re.compile(
    r"[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd]"
)
"""Arabic, Syriac and Kaithi number signs: visible, although of the format category (Cf)."""
_EMOJI: Final = range(0x1F000, 0x1FB00)
_NOISE: Final = ""


@dataclass(frozen=True)
class Crossed:
    """A text in normal form, and the reason to refuse it, if any."""

    text: str
    refusal: str | None = None


def cross(text: str) -> Crossed:
    """Return the normal form of a text written by a model. Never raises; idempotent."""
    if text.isascii() and text.isprintable():
        return Crossed(text)
    while (normal := _normalised(text)) != text:  # removals may join characters that match again
        text = normal
    return Crossed(text, _refusal(text))


def _normalised(text: str) -> str:
    lines = _LINE_END.sub("\n", text)
    seen = "".join(char for char in lines if _refused_as(char) != _NOISE)
    return unicodedata.normalize("NFC", _without_idle_joiners(unicodedata.normalize("NFC", seen)))


def _without_idle_joiners(text: str) -> str:
    """Remove joiners and styles that have no effect: a long row of them could encode a hidden text."""
    if not any(char in text for char in _JOINERS + _EMOJI_STYLE):
        return text
    kept: list[str] = []
    for place, char in enumerate(text):
        before, after = (kept[-1] if kept else " "), text[place + 1 : place + 2] or " "
        idle = (char in _JOINERS and not (_can_join(before) and _can_join(after))) or (
            char in _EMOJI_STYLE and not _has_styles(before, after)
        )
        if not idle:
            kept.append(char)
    return "".join(kept)


def _can_join(char: str) -> bool:
    return not char.isascii() and unicodedata.category(char)[0] in "LMS"


def _has_styles(char: str, after: str) -> bool:
    if char.isascii():
        return after == _KEYCAP
    return unicodedata.category(char)[0] == "S" or char in "‼⁉〰〽"


def _refusal(text: str) -> str | None:
    for char in text:
        if (what := _refused_as(char)) is not None:
            return f"it contains the {what} U+{ord(char):04X}"
    return None


def _refused_as(char: str) -> str | None:
    """Return the kind of character that is refused, `_NOISE` if it is removed, None if it stays."""
    if char.isascii():
        return None if char.isprintable() or char in "\t\n" else "control character"
    if char in _JOINERS or char in _EMOJI_STYLE or _SEEN_FORMATS.match(char):
        return None
    if char in _UNSEEN_LETTERS or _SELECTOR.match(char):
        return _NOISE
    if _TAG.match(char):
        return "tag character"
    match unicodedata.category(char):
        case "Cf" if not _DIRECTION.match(char):
            return _NOISE
        case "Cc" | "Cf" | "Cs":
            return "control character"
        case "Co":
            return "private character"
        case "Cn" if ord(char) not in _EMOJI:
            return "unknown character"
    return None
