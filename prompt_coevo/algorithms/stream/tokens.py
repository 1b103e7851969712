"""Split a question into the tokens that two questions may share.

Tokens are words, operators, and runs of characters in scripts without spaces.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import chain
from typing import Final

# Chinese and Japanese, where most words have one or two characters.
_HAN_AND_KANA: Final = (
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
# Thai, Lao, Burmese and Khmer, without their punctuation.
_SOUTH_EAST_ASIAN: Final = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0eff\u1000-\u1049\u104c-\u109f\u1780-\u17d3"
    "\u17dc-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"
)
# From Devanagari to Sinhala vowels are marks: they are not \w, but they belong to their word.
_INDIC: Final = "\u0900-\u0963\u0966-\u0dff"
_OPERATORS: Final = "-+*/^=<>|&%~\u2190-\u22ff\u2a00-\u2aff"
_LETTER: Final = rf"[^\W_{_HAN_AND_KANA}{_SOUTH_EAST_ASIAN}]"
_TOKEN: Final = re.compile(
    rf"{_LETTER}+(?:[{_INDIC}]+{_LETTER}*)*"
    f"|[{_OPERATORS}]+|[{_HAN_AND_KANA}]+|[{_SOUTH_EAST_ASIAN}]+"
)
_ASCII_TOKEN: Final = re.compile(r"[a-z0-9]+|[-+*/^=<>|&%~]+")
_SEAM: Final = re.compile(r"(?=[A-Z])(?<=[a-z])")
_TWO: Final = re.compile(f"[{_HAN_AND_KANA}]")
_UNSPACED: Final = re.compile(f"[{_HAN_AND_KANA}{_SOUTH_EAST_ASIAN}\uff66-\uff9f]")
_THREE: Final = re.compile(f"[{_SOUTH_EAST_ASIAN}]")


def tokens(text: str) -> dict[str, None]:
    """Return the distinct tokens of a text, in order, in lower case.

    Names in code are split: getUserName and user_name share `user` and `name`. In scripts without spaces,
    the tokens are all runs of two characters (Chinese, Japanese) or three (Thai, Lao, Khmer, Burmese).
    """
    if text.isascii():
        return dict.fromkeys(_ASCII_TOKEN.findall(_SEAM.sub(" ", text).lower()))
    found = _TOKEN.findall(_SEAM.sub(" ", unicodedata.normalize("NFKC", text)).lower())
    if _UNSPACED.search(text):
        return dict.fromkeys(chain.from_iterable(map(_runs, found)))
    return dict.fromkeys(found)


def _runs(token: str) -> Iterator[str]:
    size = 2 if _TWO.match(token) else 3 if _THREE.match(token) else len(token)
    for start in range(max(1, len(token) - size + 1)):
        yield token[start : start + size]
