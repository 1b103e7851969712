"""Word boundaries in any script (Unicode Standard Annex 29, by the package `regex`).

The annex does not cover scripts written without spaces. `words` takes bigrams there, like Lucene's
CJKAnalyzer: 東京都 gives 東京 and 京都. `lucene_words` follows Lucene's StandardTokenizer: Chinese
characters and Hiragana one by one, Thai and its neighbours as one word up to the next space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final

import regex

_BOUNDARY: Final = regex.compile(r"(?V1w)\b")
# The package does not cut between one of these and a vowel: it would leave 'Ulysses unlike Ulysses.
_APOSTROPHES: Final = "'’‘＇"
# Halves of flags, which are no words; finding where to cut a long row of them takes quadratic time.
_FLAGS: Final = regex.compile(r"\p{Regional_Indicator}+")
# What Lucene also calls a word, except emoji.
_HAS_LETTER: Final = regex.compile(r"[\p{L}\p{Nd}\p{Nl}]")
_CLUSTER: Final = regex.compile(r"\X")
# Such as soft hyphens, and the joiners that Persian is written with or without; and marks without a base.
_IGNORABLE: Final = regex.compile(r"\p{Default_Ignorable_Code_Point}+|^\p{M}+")
# One class for everything that may follow: marks are in several, and long rows would take very long.
_CHINESE_JAPANESE_KOREAN: Final = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Hangul}\p{Word_Break=Katakana}]"
    r"[\p{Han}\p{Hiragana}\p{Hangul}\p{Word_Break=Katakana}\p{M}\p{Cf}]*"
)
# Thai, Lao, Khmer, Burmese and others, whose words need a dictionary.
_SOUTH_EAST_ASIAN: Final = regex.compile(
    r"\p{Line_Break=Complex_Context}[\p{Line_Break=Complex_Context}\p{M}\p{Cf}]*"
)

_SPACED, _CJK, _SEA = range(3)


def words(text: str) -> list[str]:
    """Return the words as written; overlapping bigrams in scripts without spaces and in Korean.

    A single character between others is a word. Invisible characters are dropped.
    """
    return [word for segment in _segments(text, (_bigrams, _bigrams)) if (word := _bare(segment))]


def lucene_words(text: str) -> list[str]:
    """Return the words of Lucene's StandardTokenizer."""
    return list(_segments(text, (list, _joined)))


def _segments(text: str, ways: Sequence[Callable[[Sequence[str]], list[str]]]) -> Iterator[str]:
    """Yield the words.

    `ways` are two functions for scripts without spaces, which split a run of their segments into words: one
    for Chinese, Japanese and Korean, one for Thai and its neighbours.
    """
    if text.isascii() and text.isalnum():
        yield text  # the common case, on which a build spends most of its time
        return
    if not text.isascii():
        text = _FLAGS.sub(" ", text)
    for script, run in groupby(filter(None, _BOUNDARY.split(text)), _script):
        if script == _SPACED:
            yield from (one.strip(_APOSTROPHES) for one in run if _HAS_LETTER.search(one))
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
