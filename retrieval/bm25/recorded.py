"""The manifest's record of an analyzer: its name, options, and a test of its words.

Queries must be split like the index was, or they find nothing without any error. The name does not
guarantee that: another version of a package may have another algorithm. So the words of a fixed text are
compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from prompt_coevo import registry
from prompt_coevo.errors import CoevoError, SettingsError
from prompt_coevo.retrieval.analyzer import Analyzer
from prompt_coevo.retrieval.errors import IndexFileError, RetrieverError
from prompt_coevo.retrieval.named import open_analyzer
from prompt_coevo.retrieval.retriever import shown

DEFAULT_ANALYZER: Final = "english"

_PROBE: Final = """
Moby-Dick; or, The Whale is Herman Melville's novel of 1851: a sailor's wars against the U.S. whalers' kin.
It wasn’t on the U.S.A. list, i.e. J.R.R. Tolkien's, in A.D. 1,000.5 or 3.14 (e.g. C++ and foo_bar, a:b).
Generalizations, oscillators, technologies, assemblies, possibly trekking, hopping, relational, happily,
electricity, hopefulness, adjustable, controlling, skies, dying, lying, ponies, caresses, agreed, plastered.
To be, or not to be. Beyoncé, Dvořák, Łódź, São Paulo, İstanbul, Ελλάδα, Ὀδυσσεύς, ё́лка, мой, мои, їжак.
Häuser, schöner, Straße; chevaux, déjà; corriendo, naciones; книгами, красивого; kirjoissa, evlerde.
我爱北京天安门。東京都に行きました、ガラスとカラス、データﾃﾞｰﾀ。한국어를 공부합니다. 제2차 세계 대전.
हिन्दी में क्षत्रिय। বাংলা ভাষা। தமிழ் மொழி। สวัสดีชาวโลก ๑๒๓ ພາສາລາວ ភាសាខ្មែរ မြန်မာဘာသာ.
اللغة العربية كتابة می‌خواهم עברית שלום co\u00adoperate ﬁve ＡＢＣ m² ½ №5 😀 ___ x´y 'Ulysses'
"""


def chosen(name: str | None, options: Mapping[str, Any]) -> tuple[Analyzer, dict[str, Any]]:
    """Return the analyzer to build with and its manifest entry.

    Raises SettingsError for an unknown name or unsuitable options, RetrieverError if it is no analyzer.
    """
    name = name or DEFAULT_ANALYZER
    analyzer = _opened(name, options, "analyzer")
    try:
        options = json.loads(json.dumps(dict(options)))  # as it will be read back
    except (TypeError, ValueError) as error:
        raise SettingsError(
            f"the manifest cannot hold the options of the analyzer {name!r} ({error}); give it texts, "
            "numbers and lists"
        ) from None
    return analyzer, {"name": name, "options": options, "words": _hash(analyzer)}


def of_manifest(entry: Any) -> Analyzer:
    """Return the analyzer that an index was built with.

    Raises IndexFileError if it is not available here or now finds other words.
    """
    said = entry if isinstance(entry, dict) else {}
    name, options = said.get("name"), said.get("options")
    if not isinstance(name, str) or not isinstance(options, dict):
        raise IndexFileError(
            f"the index says that its analyzer is {shown(name)} with the options {shown(options)}, which "
            "is not what was written; build the index again"
        )
    try:
        analyzer = _opened(name, options, "the index's analyzer")
        same = _hash(analyzer) == said.get("words")
    except CoevoError as error:
        raise IndexFileError(
            f"the index was built with the analyzer {shown(name)}, which is not available here ({error}); "
            "build the index again, or install what brings the analyzer"
        ) from error
    if not same:
        raise IndexFileError(
            f"the index was built with another version of the analyzer {shown(name)}, which found other "
            "words than the one that is installed; install that version (of the packages regex and "
            "PyStemmer, or of what brings the analyzer), or build the index again"
        )
    return analyzer


class _Watched:
    """Wraps a third-party analyzer to report its mistakes in one sentence."""

    def __init__(self, name: str, analyzer: Analyzer) -> None:
        self._name, self._analyzer = name, analyzer

    def words(self, text: str) -> list[str]:
        try:
            found = self._analyzer.words(text)
        except CoevoError:
            raise
        except Exception as error:
            raise RetrieverError(
                f"the analyzer {self._name!r} failed on the text {text!r:.60}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if type(found) is not list or not all(type(word) is str and word for word in found):
            raise RetrieverError(
                f"the analyzer {self._name!r} made {found!r:.60} of the text {text!r:.60}; its method "
                "words must return a list of texts, none of them empty"
            )
        return found


def _opened(name: str, options: Mapping[str, Any], setting: str) -> Analyzer:
    analyzer = open_analyzer(name, options, setting)
    return analyzer if registry.is_built_in("analyzers", name) else _Watched(name, analyzer)


def _hash(analyzer: Analyzer) -> str:
    found = json.dumps(analyzer.words(_PROBE))
    return hashlib.sha256(found.encode()).hexdigest()[:32]
