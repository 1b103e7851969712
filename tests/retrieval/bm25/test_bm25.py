from __future__ import annotations

import json
import math
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.passages import passages, queries
from prompt_coevo.retrieval.bm25 import build as bm25_build
from prompt_coevo.retrieval.bm25.build import K1, B, build_bm25
from prompt_coevo.retrieval.bm25.index import Bm25Index
from prompt_coevo.retrieval.bm25.words import words
from prompt_coevo.retrieval.corpus import Corpus, write_offsets
from prompt_coevo.retrieval.errors import IndexFileError
from prompt_coevo.retrieval.shards import Shard


def corpus_of(folder: Path, texts: Sequence[str]) -> Corpus:
    folder.mkdir(parents=True, exist_ok=True)
    path, offsets = folder / "corpus.jsonl", folder / "offsets.npy"
    lines = (json.dumps({"id": row, "contents": text}) for row, text in enumerate(texts))
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    write_offsets(path, offsets)
    return Corpus.open(path, offsets)


def index_of(folder: Path, texts: Sequence[str]) -> Bm25Index:
    rows = range(len(texts))
    build_bm25(corpus_of(folder, texts), [Shard(folder / "bm25", rows)], folder / "work")
    return Bm25Index.open(folder / "bm25", rows)


def plain_bm25(texts: Sequence[str], query: str) -> dict[int, float]:
    """The formula, one passage after the other."""
    split = [Counter(words(text)) for text in texts]
    average = sum(bag.total() for bag in split) / len(split)
    scores = dict.fromkeys(range(len(texts)), 0.0)
    for word in words(query):
        frequency = sum(word in bag for bag in split)
        weight = math.log(1 + (len(texts) - frequency + 0.5) / (frequency + 0.5))
        for row, bag in enumerate(split):
            if word in bag:
                norm = K1 * (1 - B + B * bag.total() / average)
                scores[row] += weight * bag[word] / (bag[word] + norm)
    return {row: score for row, score in scores.items() if score > 0}


WORDS = ["river", "song", "king", "war", "Å", "ring"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), min_size=1, max_size=9)
QUERIES = st.lists(st.sampled_from([*WORDS, "unknown"]), min_size=1, max_size=4).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(texts=TEXTS, query=QUERIES, k=st.integers(1, 10))
def test_scores_are_those_of_the_formula(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str, k: int
) -> None:
    index = index_of(tmp_path_factory.mktemp("index"), texts)
    expected = plain_bm25(texts, query)
    found = index.search_rows([query], k)[0]
    assert len(found) == min(k, len(expected))
    assert len({row for row, _ in found}) == len(found)
    best = sorted(expected.values(), reverse=True)
    for (row, score), wanted in zip(found, best, strict=False):
        assert score == pytest.approx(expected[row], rel=1e-5)
        assert score == pytest.approx(wanted, rel=1e-5)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Bm25Index]:
    """Large enough that words which cannot change the best are looked up, not added."""
    texts = [passage["contents"] for passage in passages(3000)]
    return texts, index_of(tmp_path_factory.mktemp("world"), texts)


def test_nothing_is_lost_by_leaving_frequent_words_for_last(
    world: tuple[list[str], Bm25Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, index = world
    asked = [query for query, _ in queries(300, 3000)]
    asked += ["the of which also", "also", "which which which", "painter painter sailor also"]
    quick = [index.search_rows(asked, k) for k in (1, 3, 50)]
    monkeypatch.setattr("prompt_coevo.retrieval.bm25.index._LOOK_UP", math.inf)
    assert [index.search_rows(asked, k) for k in (1, 3, 50)] == quick


def test_the_right_passage_is_found(world: tuple[list[str], Bm25Index]) -> None:
    texts, index = world
    asked = queries(100, 3000)
    found = index.search_rows([query for query, _ in asked], 3)
    hits = [
        int(right) in [row for row, _ in rows]
        for rows, (_, right) in zip(found, asked, strict=True)
    ]
    assert np.mean(hits) > 0.95
    query = asked[0][0]
    expected = plain_bm25(texts, query)
    assert found[0][0][1] == pytest.approx(max(expected.values()), rel=1e-5)


def test_scores_are_those_of_bm25s(world: tuple[list[str], Bm25Index]) -> None:
    bm25s = pytest.importorskip("bm25s")
    texts, index = world
    theirs = bm25s.BM25(method="lucene", k1=K1, b=B)
    theirs.index([words(text) for text in texts], show_progress=False)
    asked = [query for query, _ in queries(50, 3000)]
    for query, found in zip(asked, index.search_rows(asked, 5), strict=True):
        known = [word for word in words(query) if word in theirs.vocab_dict]
        scores = np.sort(theirs.get_scores(known))[::-1]
        assert [score for _, score in found] == pytest.approx(scores[:5].tolist(), rel=1e-5)


def test_of_equals_the_first_row_is_first(tmp_path: Path) -> None:
    index = index_of(tmp_path, ["a river", "song", "river", "the river", "river river"] * 40)
    rows = [row for row, _ in index.search_rows(["river"], 45)[0]]
    assert rows[:40] == list(range(4, 200, 5))
    assert rows[40:] == [0, 2, 3, 5, 7]


def test_words_are_compared_without_case_and_accents(tmp_path: Path) -> None:
    index = index_of(tmp_path, ["Beyoncé Knowles", "STRASSE", "ﬁve apples"])
    asked = ["BEYONCE", "strasse", "five", "Étude"]
    assert [[row for row, _ in rows] for rows in index.search_rows(asked, 3)] == [[0], [1], [2], []]


def test_a_title_of_stop_words_is_found(tmp_path: Path) -> None:
    index = index_of(tmp_path, ["to be or not to be", "a king", "and the river"])
    assert index.search_rows(["To be, or not to be"], 3)[0][0][0] == 0


def test_a_query_without_known_words_finds_nothing(tmp_path: Path) -> None:
    assert index_of(tmp_path, ["one"]).search_rows(["?!", "two"], 3) == [[], []]
    assert index_of(tmp_path / "empty", ["", "..."]).search_rows(["one"], 3) == [[]]


def test_runs_and_shards_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [passage["contents"] for passage in passages(500)]
    whole = index_of(tmp_path / "whole", texts)
    monkeypatch.setattr(bm25_build, "_RUN", 64)
    corpus = corpus_of(tmp_path / "cut", texts)
    parts = [
        Shard(tmp_path / "cut" / "a", range(130)),
        Shard(tmp_path / "cut" / "b", range(130, 500)),
    ]
    told: list[tuple[int, int]] = []
    details = build_bm25(corpus, parts, tmp_path / "work", lambda *step: told.append(step))
    assert told[-1] == (1000, 1000)
    assert not (tmp_path / "work").exists()
    assert details["terms"] == len(np.load(tmp_path / "whole" / "bm25" / "terms.npy"))
    asked = [query for query, _ in queries(40, 500)]
    expected = whole.search_rows(asked, 500)
    for part in parts:
        found = Bm25Index.open(*part).search_rows(asked, 500)
        for all_hits, hits in zip(expected, found, strict=True):
            assert hits == [hit for hit in all_hits if hit[0] in part.rows]


def test_searches_at_the_same_time_do_not_mix(world: tuple[list[str], Bm25Index]) -> None:
    _, index = world
    asked = [query for query, _ in queries(60, 3000)]
    alone = [index.search_rows([query], 3)[0] for query in asked]
    found: dict[int, list[list[tuple[int, float]]]] = {}

    def search(number: int) -> None:
        found[number] = index.search_rows(asked, 3)

    threads = [threading.Thread(target=search, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(found.values()) == [alone] * 4


def test_files_of_two_indexes_are_refused(tmp_path: Path) -> None:
    index_of(tmp_path / "one", ["river"])
    index_of(tmp_path / "two", ["river song king"])
    (tmp_path / "one" / "bm25" / "rows.npy").replace(tmp_path / "two" / "bm25" / "rows.npy")
    with pytest.raises(IndexFileError, match="do not belong together; build the index again"):
        Bm25Index.open(tmp_path / "two" / "bm25", range(1))
    (tmp_path / "two" / "bm25" / "rows.npy").write_bytes(b"")
    with pytest.raises(IndexFileError, match=r"rows.npy cannot be read"):
        Bm25Index.open(tmp_path / "two" / "bm25", range(1))
