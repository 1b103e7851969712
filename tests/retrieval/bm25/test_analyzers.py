"""Check the words of texts with every built-in analyzer."""

from __future__ import annotations

import json
import threading
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.passages import passages, queries
from prompt_coevo.errors import SettingsError
from prompt_coevo.retrieval.bm25 import analyzers
from prompt_coevo.retrieval.bm25.analyzers import english, lucene, snowball, unicode
from prompt_coevo.retrieval.bm25.build import K1, B, build_bm25
from prompt_coevo.retrieval.bm25.index import Bm25Index
from prompt_coevo.retrieval.corpus import Corpus, write_offsets
from prompt_coevo.retrieval.shards import Shard

WORDS = {
    "english": english().words,
    "english, accents kept": english(fold=False).words,
    "lucene": lucene().words,
    "unicode": unicode().words,
    "unicode, accents kept": unicode(fold=False).words,
    "german": snowball("german").words,
}
NORMALISED = sorted(WORDS.keys() - {"lucene"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Melville's wars, the war", ["melvil", "war", "war"]),
        ("the dogs’ owner’s KIDS'S", ["dog", "owner", "kid"]),
        ("US and U.S. and U.S", ["us", "us", "us"]),
        ("U.S.A., e.g. J.R.R. Tolkien", ["usa", "eg", "jrr", "tolkien"]),
        ("I.T. is it", ["it"]),
        ("3.14 and 1,000.5; 2:30 v1.2", ["3.14", "1,000.5", "2", "30", "v1.2"]),
        ("Moby-Dick foo_bar C++ ___", ["mobi", "dick", "foo_bar", "c"]),
        ("don't don’t", ["don't", "don't"]),
        ("Beyoncé Łódź cafés", ["beyonc", "lodz", "cafe"]),
        ("To be, or not to be!", ["to", "be", "or", "not", "to", "be"]),
        ("?! ...", []),
        ("", []),
    ],
)
def test_english(text: str, words: list[str]) -> None:
    assert english().words(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The U.S. in the USA's technology", ["u.", "usa", "technolog"]),
        ("Beyoncé's Café", ["beyoncé", "café"]),
        ("北京 ガラスとカラス 한국어 단어", [*"北京", "ガラス", "と", "カラス", "한국어", "단어"]),
        ("สวัสดีชาวโลก ภาษาไทย", ["สวัสดีชาวโลก", "ภาษาไทย"]),
        ("İstanbul ΟΔΟΣ", ["istanbul", "οδοσ"]),
    ],
)
def test_lucene_to_the_letter(text: str, words: list[str]) -> None:
    assert lucene().words(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("我爱北京。東 京", ["我爱", "爱北", "北京", "東", "京"]),
        ("ガラス", ["ガラ", "ラス"]),
        ("ｶﾞﾗｽ", ["ガラ", "ラス"]),
        ("カラス", ["カラ", "ラス"]),
        ("食べる", ["食べ", "べる"]),
        ("한국어 3월", ["한국", "국어", "3월"]),
        ("ไทย", ["ไท", "ทย"]),
        ("မြန်မာ", ["မြန်", "န်မ", "မာ"]),
        ("ភាសា", ["ភាសា"]),
        ("हिन्दी में क्षत्रिय", ["हिन्दी", "में", "क्षत्रिय"]),
        ("বাংলা தமிழ்", ["বাংলা", "தமிழ்"]),
        ("co\u00adoperate می\u200cخواهم", ["cooperate", "میخواهم"]),
        ("ﬁve ＡＢＣ m²", ["five", "abc", "m2"]),
        ("мой мои ё́лка Ёлка їжак", ["мой", "мои", "елка", "елка", "їжак"]),
        ("Ὀδυσσεύς ΟΔΟΣ οδος", ["οδυσσευσ", "οδοσ", "οδοσ"]),
        ("x´y \u0301b 😀", ["x", "y", "b"]),
    ],
)
def test_unicode(text: str, words: list[str]) -> None:
    assert unicode().words(text) == words


def test_glass_is_no_crow_and_accents_may_be_kept() -> None:
    for name, words in WORDS.items():
        assert words("ガラス") != words("カラス"), name
    assert unicode(fold=False).words("Ano año") == ["ano", "año"]
    assert unicode().words("Ano año") == ["ano", "ano"]
    assert english(fold=False).words("Beyoncé") != english().words("Beyoncé")


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("word", ["Ulysses", "Araby", "emma", "Oblomov", "Émile", "Moby", "1984"])
@pytest.mark.parametrize("quotes", ["''", "’’", "‘’", "＇＇", "''''", '""', "«»"])
def test_a_quoted_word_is_the_word(name: str, word: str, quotes: str) -> None:
    """Compare words in quotes with bare ones, as Annex 29 and Lucene cut them."""
    half = len(quotes) // 2
    quoted = f"{quotes[:half]}{word}{quotes[half:]}"
    assert WORDS[name](f"who wrote {quoted}?") == WORDS[name](f"who wrote {word}?")


def test_apostrophes_within_a_word_stay() -> None:
    assert lucene().words("l'objectif 'twas o'clock rock 'n' roll d'Artagnan's") == [
        "l'objectif",
        "twa",
        "o'clock",
        "rock",
        "n",
        "roll",
        "d'artagnan",
    ]


def test_stop_words_may_be_kept() -> None:
    for make in (english, lucene):
        assert make().words("the king and I") == ["king", "i"]
        assert make(stop_words=False).words("the king and I") == ["the", "king", "and", "i"]


def test_stems_of_another_language() -> None:
    assert snowball("german").words("Häuser, das Haus") == ["haus", "das", "haus"]
    assert snowball("spanish", fold=True).words("Canción") == ["cancion"]


@pytest.mark.parametrize(
    ("make", "options", "problem"),
    [
        (english, {"stop_words": "no"}, "option stop_words must be true or false, but is 'no'"),
        (unicode, {"fold": 1}, "option fold must be true or false, but is 1"),
        (lucene, {"stop_words": None}, "option stop_words must be true or false, but is None"),
        (snowball, {"language": ["german"]}, r"no stemmer for language = \['german'\]"),
    ],
)
def test_options_of_another_type_are_refused(
    make: Callable[..., Any], options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SettingsError, match=problem):
        make(**options)


# Letters of many scripts with combining marks, and other characters.
CHARACTERS = st.sampled_from(
    [*"aB.'’s ,1_-éßΣςİıйёガカﾞ北한ไทย\u0301\u00ad\u200d\u200b\u3000ﬁ½́́'´क्षि🇩🇪😀ǰΐ"]
)
TEXTS = st.text(st.one_of(CHARACTERS, st.characters(exclude_categories=["Cs"])), max_size=20)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_no_word_is_empty_and_forms_of_a_text_are_one(text: str) -> None:
    for name, words in WORDS.items():
        found = words(text)
        assert all(found), name
        assert words(text) == found
    for name in NORMALISED:
        forms = [
            WORDS[name](unicodedata.normalize(form, text))
            for form in ("NFC", "NFD", "NFKC", "NFKD")
        ]
        assert forms == [WORDS[name](text)] * 4, name


@settings(max_examples=200, deadline=None)
@given(TEXTS, TEXTS)
def test_what_stands_before_changes_no_word(before: str, text: str) -> None:
    """So cached words equal freshly found ones."""
    words = unicode().words
    assert words(f"{before} {text}") == words(before) + words(text)


@pytest.mark.parametrize("name", ["english", "lucene", "unicode"])
@pytest.mark.parametrize(
    "text",
    ["ก" + "ั" * 5000 + "🏻", "한" + "\u3099" * 5000 + "🏻", "🇩" * 20_000, "a'" * 9000, "京" * 9000],
)
def test_long_rows_of_anything_take_no_time(text: str, name: str) -> None:
    """A rule that backtracks over possible ends took seconds for each, or never ended."""
    started = time.process_time()
    WORDS[name](text)
    assert time.process_time() - started < 20


def test_what_is_forgotten_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyzers, "_MOST_KEPT", 3)
    text = "wars of kings, songs of rivers; wars and kings, and a U.S. song about a war"
    assert english().words(text * 3) == WORDS["english"](text * 3)


def test_threads_may_share_an_analyzer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyzers, "_MOST_KEPT", 50)
    texts = [passage["contents"] for passage in passages(60)]
    expected = [WORDS["english"](text) for text in texts]
    shared = english()
    found: list[list[list[str]]] = []
    threads = [
        threading.Thread(target=lambda: found.append([shared.words(text) for text in texts]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


@pytest.mark.parametrize("name", ["english", "unicode"])
def test_scores_and_ranking_are_those_of_bm25s(tmp_path: Path, name: str) -> None:
    bm25s = pytest.importorskip("bm25s")
    analyzer = {"english": english, "unicode": unicode}[name]()
    texts = [f"{passage['contents']} Étude's U.S. 北京" for passage in passages(800)]
    lines = (json.dumps({"id": row, "contents": text}) for row, text in enumerate(texts))
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines), "utf-8")
    write_offsets(tmp_path / "corpus.jsonl", tmp_path / "offsets.npy")
    corpus = Corpus.open(tmp_path / "corpus.jsonl", tmp_path / "offsets.npy")
    rows = range(len(texts))
    build_bm25(corpus, [Shard(tmp_path / "bm25", rows)], tmp_path / "work", None, analyzer)
    index = Bm25Index(tmp_path / "bm25", rows, analyzer)
    theirs = bm25s.BM25(method="lucene", k1=K1, b=B)
    theirs.index([analyzer.words(text) for text in texts], show_progress=False)
    asked = [query for query, _ in queries(30, 800)]
    for query, found in zip(asked, index.search_rows(asked, 5), strict=True):
        known = [word for word in analyzer.words(query) if word in theirs.vocab_dict]
        scores = theirs.get_scores(known)
        assert [score for _, score in found] == pytest.approx(
            np.sort(scores)[::-1][:5].tolist(), rel=1e-5
        )
        assert [scores[row] for row, _ in found] == pytest.approx(
            [score for _, score in found], rel=1e-5
        )
