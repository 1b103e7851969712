"""Stemming with Snowball's algorithms (the package PyStemmer)."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Final

from prompt_coevo.errors import SettingsError
from prompt_coevo.extras import require

_LENGTHENED: Final = re.compile(r"(?:bl|log)(?:i|y|ies|[iy](?:s|eds?|ings?))$")
_DOUBLED: Final = re.compile(r"([chjkqvwx])\1(?:ed|ing)s?$")
_SYLLABLE: Final = re.compile(r"(?:[aeiou]|(?<=[^aeiou])y)(?:[^aeiouy]|(?<=[aeiou])y)")


def porter() -> Callable[[str], str]:
    """Return the stemmer of Lucene's English analyzer: Porter's own program, which differs slightly from
    his paper.

    Snowball's "porter" is the paper (Program 14(3), 1980). The program leaves two-letter words alone, maps
    -bli to -ble and -logi to -log (assembly, technology), and undoubles every consonant (trekking).
    """
    stem = snowball("porter")

    def lucene(word: str) -> str:
        if len(word) < 3:
            return word
        found = stem(word)
        if _DOUBLED.search(word) and found[-1] == found[-2:-1]:
            return stem(found[:-1])
        if _LENGTHENED.search(word):
            if found.endswith("bli") and _SYLLABLE.search(found[:-3]):
                return stem(f"{found[:-1]}e")
            if found.endswith("logi") and _SYLLABLE.search(found[:-4]):
                return stem(found[:-1])
        return found

    return lucene


def snowball(language: str) -> Callable[[str], str]:
    """Return a language's stemmer. Raises SettingsError for a language that Snowball does not have."""
    require("Stemmer", extra="retrieval", purpose="stemming")
    import Stemmer

    if language not in Stemmer.algorithms():
        raise SettingsError(
            f"Snowball has no stemmer for language = {language!r:.60}; choose one of: "
            f"{', '.join(Stemmer.algorithms())}"
        )
    stemmer = Stemmer.Stemmer(language, 0)
    lock = threading.Lock()  # two threads must not use a stemmer at once

    def stem(word: str) -> str:
        with lock:
            return str(stemmer.stemWord(word))

    return stem
