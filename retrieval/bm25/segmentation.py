"""Where words begin and end, in any script (Unicode Standard Annex 29, by the package `regex`).

The annex leaves open what to do in scripts that are written without spaces. There Lucene's CJKAnalyzer
takes bigrams, and so does `words`: 東京都 is 東京 and 京都. Lucene's StandardTokenizer takes Chinese
characters and Hiragana one by one, and Thai and its neighbours as one word up to the next space, and so
does `lucene_words`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final

import regex

_BOUNDARY: Final = regex.compile(r"(?V1w)\b")
# Halves of flags, which are no words; telling where a long row of them may be cut takes quadratic time.
_FLAGS: Final = regex.compile(r"\p{Regional_Indicator}+")
# What Lucene calls a word too, but for emoji.
_HAS_LETTER: Final = regex.compile(r"[\p{L}\p{Nd}\p{Nl}]")
_CLUSTER: Final = regex.compile(r"\X")
# Such as soft hyphens, and the joiners that Persian is written with or without; and marks of nothing.
_IGNORABLE: Final = regex.compile(r"\p{Default_Ignorable_Code_Point}+|^\p{M}+")
# What some of them may follow is one class, for marks are in several: else long rows of them take for ever.
_CHINESE_JAPANESE_KOREAN: Final = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Hangul}\p{Word_Break=Katakana}]"
    r"[\p{Han}\p{Hiragana}\p{Hangul}\p{Word_Break=Katakana}\p{M}\p{Cf}]*"
)
# Thai, Lao, Khmer, Burmese and others whose words only a dictionary could tell apart.
_SOUTH_EAST_ASIAN: Final = regex.compile(
    r"\p{Line_Break=Complex_Context}[\p{Line_Break=Complex_Context}\p{M}\p{Cf}]*"
)

_SPACED, _CJK, _SEA = range(3)


def words(text: str) -> list[str]:
    """The words as they stand there; of scripts without spaces, and of Korean, overlapping bigrams.

    A character that stands alone between others is a word. Characters that show nothing are left out.
    """
    return [word for segment in _segments(text, (_bigrams, _bigrams)) if (word := _bare(segment))]


def lucene_words(text: str) -> list[str]:
    """The words of Lucene's StandardTokenizer."""
    return list(_segments(text, (list, _joined)))


def _segments(text: str, ways: Sequence[Callable[[Sequence[str]], list[str]]]) -> Iterator[str]:
    """`ways` are what is done with a run of Chinese, Japanese and Korean, and with one of Thai."""
    if text.isascii() and text.isalnum():
        yield text  # most are, and this is what takes the time of a build
        return
    if not text.isascii():
        text = _FLAGS.sub(" ", text)
    for script, run in groupby(filter(None, _BOUNDARY.split(text)), _script):
        if script == _SPACED:
            yield from filter(_HAS_LETTER.search, run)
        else:
            yield from ways[script - 1](list(run))


def _script(segment: str) -> int:
    if segment.isascii():
        return _SPACED
    if _CHINESE_JAPANESE_KOREAN.fullmatch(segment):
        return _CJK
    return _SEA if _SOUTH_EAST_ASIAN.fullmatch(segment) else _SPACED


def _bigrams(run: Sequence[str]) -> list[str]:
    clusters = _CLUSTER.findall(_bare("".join(run)))
    return clusters if len(clusters) < 2 else [first + then for first, then in pairwise(clusters)]


def _joined(run: Sequence[str]) -> list[str]:
    return ["".join(run)]


def _bare(segment: str) -> str:
    return segment if segment.isascii() else str(_IGNORABLE.sub("", segment))
