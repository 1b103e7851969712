"""The built-in analyzers, registered as "analyzers" in `prompt_coevo.registry`.

Most words of a corpus are frequent, so the terms found for each piece between two spaces are cached: a
known word costs little more than a look-up.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection
from typing import Final, TypeAlias, TypeVar

from prompt_coevo.errors import SettingsError
from prompt_coevo.extras import require
from prompt_coevo.retrieval.bm25.stemming import porter
from prompt_coevo.retrieval.bm25.stemming import snowball as snowball_stemmer
from prompt_coevo.retrieval.bm25.words import STOP_WORDS

# Up to twice as many are held, a few dozen MB. Longer pieces are addresses or text without spaces, and will
# not come again.
_MOST_KEPT: Final = 1 << 16
_LONGEST_KEPT: Final = 40

_POSSESSIVE: Final = ("'s", "’s", "＇s")

Found = TypeVar("Found")
Step: TypeAlias = Callable[[str], str]


class WordAnalyzer:
    """Cuts texts at spaces; `split` makes words of a piece, and `trim` and `finish` turn these into terms.

    A word that is a stop word after `trim` is dropped, but a text of stop words alone keeps them, because
    some titles are like that. `settle` runs first, on the whole text. Safe to use from several threads.
    """

    def __init__(
        self,
        split: Callable[[str], list[str]],
        *,
        settle: Step,
        trim: Step,
        finish: Step,
        stop_words: Collection[str] = (),
    ) -> None:
        self._split, self._settle = split, settle
        self._trim = trim
        self._stop_words = frozenset(stop_words)
        self._finished: _Known[str] = _Known(finish)
        self._known: _Known[tuple[str, ...]] = _Known(
            lambda piece: self._terms(piece, self._stop_words)
        )

    def words(self, text: str) -> list[str]:
        """Return the words, as `Analyzer.words`."""
        pieces = self._settle(text).split()
        known = self._known
        found = [term for piece in pieces for term in known[piece]]
        if found or not self._stop_words:
            return found
        return [term for piece in pieces for term in self._terms(piece, frozenset())]

    def _terms(self, piece: str, left_out: frozenset[str]) -> tuple[str, ...]:
        trimmed = map(self._trim, self._split(piece))
        return tuple([self._finished[word] for word in trimmed if word and word not in left_out])


class _Known(dict[str, Found]):
    """A cache of terms by text that forgets the least recently used."""

    def __init__(self, find: Callable[[str], Found]) -> None:
        self._find = find
        self._earlier: dict[str, Found] = {}

    def __missing__(self, text: str) -> Found:
        if (found := self._earlier.get(text)) is None:
            found = self._find(text)
        if len(text) <= _LONGEST_KEPT:
            if len(self) >= _MOST_KEPT:
                self._earlier = dict(self)
                self.clear()
            self[text] = found
        return found


def english(stop_words: bool = True, fold: bool = True) -> WordAnalyzer:
    """Make the analyzer "english": `unicode` plus Lucene's treatment of English (possessives, stop words,
    stems).

    Raises SettingsError for an option that is not a boolean.
    """
    _check_switches(stop_words=stop_words, fold=fold)
    stem, plain = porter(), _folding(fold)
    return WordAnalyzer(
        _unicode_words(),
        settle=_compatible,
        trim=lambda word: _without_possessive(plain(word)),
        finish=lambda word: stem(_without_periods(word)),
        stop_words=STOP_WORDS if stop_words else (),
    )


def lucene(stop_words: bool = True) -> WordAnalyzer:
    """Make the analyzer "lucene": the words of Lucene's EnglishAnalyzer, which Pyserini builds its indexes
    with.

    Differences: emoji are no words here, a word of more than 255 characters is not cut, and a text of stop
    words alone keeps them. Raises SettingsError for an option that is not a boolean.
    """
    _check_switches(stop_words=stop_words)
    from prompt_coevo.retrieval.bm25.segmentation import lucene_words

    return WordAnalyzer(
        lucene_words,
        settle=_lower_as_java,
        trim=_without_possessive,
        finish=porter(),
        stop_words=STOP_WORDS if stop_words else (),
    )


def unicode(fold: bool = True) -> WordAnalyzer:
    """Make the analyzer "unicode": words of any language, without case, accents and the periods of U.S.

    Raises SettingsError for an option that is not a boolean.
    """
    _check_switches(fold=fold)
    return WordAnalyzer(
        _unicode_words(),
        settle=_compatible,
        trim=_folding(fold),
        finish=_without_periods,
    )


def snowball(language: str, fold: bool = False) -> WordAnalyzer:
    """Make the analyzer "snowball": `unicode` plus the stems of a language; `fold` removes accents from the
    stems.

    Raises SettingsError for a language without a Snowball stemmer and for an option of the wrong type.
    """
    _check_switches(fold=fold)
    stem, plain = snowball_stemmer(language), _folding(fold)

    def finish(word: str) -> str:
        # A word that consists of endings may have an empty stem.
        return plain(stem(whole := _without_periods(word)) or whole)

    return WordAnalyzer(_unicode_words(), settle=_compatible, trim=str, finish=finish)


def _check_switches(**switches: object) -> None:
    require("regex", extra="retrieval", purpose="finding words")
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise SettingsError(
                f"the analyzer's option {name} must be true or false, but is {value!r:.60}"
            )


def _compatible(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def _unicode_words() -> Callable[[str], list[str]]:
    from prompt_coevo.retrieval.bm25.segmentation import words

    def split(piece: str) -> list[str]:
        if piece.isascii():
            return words(piece.lower())
        return words(_compatible(piece.casefold()).replace("’", "'"))

    return split


def _folding(wanted: bool) -> Step:
    if not wanted:
        return str
    from prompt_coevo.retrieval.bm25.folding import fold

    return fold


def _lower_as_java(text: str) -> str:
    """Lower-case character by character like Java: a final sigma is an ordinary one, and dotted I keeps its
    dot."""
    return text.lower() if text.isascii() else text.replace("Σ", "σ").replace("İ", "i").lower()


def _without_possessive(word: str) -> str:
    return word[:-2] if word.endswith(_POSSESSIVE) else word


def _without_periods(word: str) -> str:
    letters = word.split(".")
    acronym = all(len(letter) == 1 and letter.isalpha() for letter in letters)
    return "".join(letters) if acronym else word
