"""The words of the analyzer "simple", and what words are looked up by."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

_COMMON = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these
they this to was will with
"""
STOP_WORDS = frozenset(_COMMON.split())
"""Lucene's."""

_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """The words in their order: lower case, without accents, without stop words.

    A text of stop words alone keeps them, for there are such titles.
    """
    found = _WORD.findall(_plain(text))
    return [word for word in found if word not in STOP_WORDS] or found


def hashes(vocabulary: Iterable[str]) -> npt.NDArray[np.uint64]:
    """64 bits per word, the same on every machine.

    That two of ten million words share theirs happens in one of 400 000 vocabularies, and then costs
    a wrong score for those two.
    """
    digests = (hashlib.blake2b(word.encode(), digest_size=8).digest() for word in vocabulary)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def _plain(text: str) -> str:
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text).lower()
    return "".join(sign for sign in decomposed if not unicodedata.combining(sign))
