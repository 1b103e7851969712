"""Remove accents in the scripts where readers treat both spellings as the same word.

Marks in other scripts are letters, not accents: without them ガラス (glass) would be カラス (crow), and
words of Hindi would lose their vowels.
"""

from __future__ import annotations

import unicodedata
from typing import Final

import regex

_ACCENTED: Final = regex.compile(r"([\p{Latin}\p{Greek}])\p{Mn}+")
# Stress marks, and ё, usually printed as е. The breve of й and the dots of ї make different letters.
_STRESSED: Final = regex.compile("(е)\u0308?[\u0300\u0301]?|([аиоуыэюяіє])[\u0300\u0301]")
# Letters that Unicode does not decompose into a base letter and an accent.
_STROKED: Final = str.maketrans(
    {
        "ø": "o",
        "ł": "l",
        "đ": "d",
        "ħ": "h",
        "ŧ": "t",
        "ı": "i",
        "æ": "ae",
        "œ": "oe",
        "ð": "d",
        "þ": "th",
    }
)


def fold(word: str) -> str:
    """Remove the accents of Latin, Greek and Cyrillic letters from a lower-case word."""
    if word.isascii():
        return word
    marked = unicodedata.normalize("NFD", word)
    bare = _STRESSED.sub(r"\1\2", _ACCENTED.sub(r"\1", marked))
    return unicodedata.normalize("NFC", bare).translate(_STROKED)
