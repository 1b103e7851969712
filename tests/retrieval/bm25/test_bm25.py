from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.passages import passages, queries
from prompt_coevo.errors import SettingsError
from prompt_coevo.extras import MissingExtraError
from prompt_coevo.retrieval.bm25 import build as bm25_build
from prompt_coevo.retrieval.bm25 import heap, kernels
from prompt_coevo.retrieval.bm25.analyzers import english
from prompt_coevo.retrieval.bm25.build import K1, B, build_bm25
from prompt_coevo.retrieval.bm25.heap import version_of
from prompt_coevo.retrieval.bm25.index import Bm25Index
from prompt_coevo.retrieval.bm25.words import hashes
from prompt_coevo.retrieval.corpus import Corpus, write_offsets
from prompt_coevo.retrieval.errors import IndexFileError
from prompt_coevo.retrieval.shards import Shard

ANALYZER = english()
words = ANALYZER.words


def corpus_of(folder: Path, texts: Sequence[str]) -> Corpus:
    folder.mkdir(parents=True, exist_ok=True)
    path, offsets = folder / "corpus.jsonl", folder / "offsets.npy"
    lines = (json.dumps({"id": row, "contents": text}) for row, text in enumerate(texts))
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    write_offsets(path, offsets)
    return Corpus.open(path, offsets)


def opened(folder: Path, rows: range) -> Bm25Index:
    return Bm25Index(folder, rows, ANALYZER)


def index_of(folder: Path, texts: Sequence[str]) -> Bm25Index:
    rows = range(len(texts))
    build_bm25(
        corpus_of(folder, texts), [Shard(folder / "bm25", rows)], folder / "work", None, ANALYZER
    )
    return opened(folder / "bm25", rows)


def plain_bm25(texts: Sequence[str], query: str) -> dict[int, float]:
    """Compute the formula directly, one passage after the other."""
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
    """Build an index so large that words that cannot change the best rows are looked up, not added."""
    texts = [passage["contents"] for passage in passages(3000)]
    return texts, index_of(tmp_path_factory.mktemp("world"), texts)


def files_of(index: Bm25Index) -> dict[str, Any]:
    return {path.stem: np.load(path) for path in index.folder.iterdir()}


def added_up(files: dict[str, Any], query: str, k: int) -> list[tuple[int, float]]:
    """Add all postings of the query's words in float32, the rarest word first; then sort all rows."""
    counts = Counter(words(query))
    places = np.searchsorted(files["terms"], hashes(counts)).tolist()
    frequencies = [*files["frequencies"].tolist(), 0]
    terms = [*files["terms"].tolist(), None]
    own = [
        (frequencies[place], place, count)
        for place, count, own_hash in zip(places, counts.values(), hashes(counts), strict=True)
        if terms[place] == own_hash
    ]
    sums = np.zeros(int(files["rows"].max(initial=0)) + 1, dtype=np.float32)
    for _, place, count in sorted(own):
        postings = slice(files["starts"][place], files["starts"][place + 1])
        sums[files["rows"][postings]] += np.float32(count) * files["scores"][postings]
    order = np.lexsort((np.arange(len(sums)), -sums))[:k]
    return [(row, sums[row].item()) for row in order.tolist() if sums[row] > 0]


def test_scores_and_ranks_are_those_of_adding_up_all_postings(
    world: tuple[list[str], Bm25Index],
) -> None:
    texts, index = world
    files = files_of(index)
    asked = [query for query, _ in queries(60, 3000)] + texts[:20]
    asked += ["the of which also", "also", "which which which", "painter painter sailor also"]
    asked += [" ".join(texts[row : row + 20]) for row in range(0, 200, 20)]
    for k in (1, 3, 50, 5000):
        found = index.search_rows(asked, k)
        assert found == [added_up(files, query, k) for query in asked]


@settings(max_examples=60, deadline=None)
@given(texts=TEXTS, query=QUERIES, k=st.integers(1, 10), block=st.sampled_from([1, 2, 5]))
def test_blocks_of_rows_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str, k: int, block: int
) -> None:
    index = index_of(tmp_path_factory.mktemp("index"), texts * 3)
    with mock.patch.object(kernels, "BLOCK", block):
        assert index.search_rows([query], k)[0] == added_up(files_of(index), query, k)


@pytest.mark.parametrize("block", [1, 7, 256])
def test_small_blocks_leave_out_what_large_ones_do(
    world: tuple[list[str], Bm25Index], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, index = world
    asked = [query for query, _ in queries(20, 3000)] + texts[:5]
    expected = index.search_rows(asked, 4)
    again = opened(index.folder, range(3000))
    monkeypatch.setattr(kernels, "BLOCK", block)
    assert again.search_rows(asked, 4) == expected


def test_a_batch_is_divided_among_threads(
    world: tuple[list[str], Bm25Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, index = world
    asked = [*texts[:50], "unknown", *texts[50:101]]
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    alone = opened(index.folder, range(3000)).search_rows(asked, 3)
    monkeypatch.setenv("OMP_NUM_THREADS", "3,1")
    several = opened(index.folder, range(3000))
    assert several.search_rows(asked, 3) == alone
    several.close()
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    with pytest.raises(
        SettingsError, match="OMP_NUM_THREADS must be a number above 0, but is 'many'"
    ):
        opened(index.folder, range(3000))


def test_words_are_found_whatever_is_remembered_of_others(
    world: tuple[list[str], Bm25Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, index = world
    expected = index.search_rows(texts[:30], 3)
    monkeypatch.setattr("prompt_coevo.retrieval.bm25.index._MOST_KNOWN", 60)
    forgetful = opened(index.folder, range(3000))
    assert [forgetful.search_rows([text], 3)[0] for text in texts[:30]] == expected
    assert forgetful.search_rows(texts[:30], 3) == expected


def test_of_frequent_words_only_rows_that_matter_are_looked_at(tmp_path: Path) -> None:
    """Rows that cannot be among the best are not read, so long queries are cheap."""
    count, rare = 20_000, range(0, 20_000, 1000)
    texts = [f"war king song{' river' if row in rare else ''}" for row in range(count)]
    asked, index = ["river war king song"], index_of(tmp_path, texts)
    expected = index.search_rows(asked, 3)
    scores = np.load(tmp_path / "bm25" / "scores.npy")
    rows = np.load(tmp_path / "bm25" / "rows.npy")
    scores[~np.isin(rows, rare)] = 1e9
    np.save(tmp_path / "bm25" / "scores.npy", scores)
    found = opened(tmp_path / "bm25", range(count)).search_rows(asked, 3)
    assert found == expected == [[(row, expected[0][0][1]) for row in rare[:3]]]


def damaged(folder: Path, name: str, value: int) -> Bm25Index:
    index_of(folder, [f"river song king {'war ' * (row % 3)}" for row in range(200)])
    path = folder / "bm25" / f"{name}.npy"
    numbers = np.load(path)
    numbers[1 if name == "starts" else slice(1, 100)] = value
    np.save(path, numbers)
    return opened(folder / "bm25", range(200))


@pytest.mark.parametrize(("name", "value"), [("rows", -1), ("starts", -5), ("starts", 10**9)])
def test_damaged_postings_are_a_sentence(tmp_path: Path, name: str, value: int) -> None:
    index = damaged(tmp_path, name, value)
    with pytest.raises(IndexFileError, match="are damaged; build the index again"):
        index.search_rows(["river song king war"], 3)
    assert index.search_rows(["unknown"], 3) == [[]]


@pytest.mark.parametrize("value", [0, 150, 2**31 - 1, -(2**31)])
def test_damaged_rows_write_nowhere_else(tmp_path: Path, value: int) -> None:
    index = damaged(tmp_path, "rows", value)
    for _ in range(2):
        with contextlib.suppress(IndexFileError):
            found = index.search_rows(["river song king war", "war", "song river"], 300)
            assert all(0 <= row < 200 for rows in found for row, _ in rows)


def test_without_numba_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_of(tmp_path, ["a river"])
    monkeypatch.setattr("prompt_coevo.extras.is_installed", lambda package: False)
    with pytest.raises(MissingExtraError, match=r"numba.*pip install 'prompt-coevo\[retrieval\]'"):
        opened(tmp_path / "bm25", range(1))


@pytest.mark.long
def test_scoring_works_where_nothing_can_be_kept(tmp_path: Path) -> None:
    """Compiled code is cached beside the package, in the user's cache, or nowhere."""
    search = (
        "from prompt_coevo.retrieval.bm25.analyzers import english; import sys;"
        "from pathlib import Path; from prompt_coevo.retrieval.bm25.index import Bm25Index;"
        "print(Bm25Index(Path(sys.argv[1]), range(2), english()).search_rows(['river'], 1)[0][0][0])"
    )
    index_of(tmp_path, ["a song", "a river"])
    (tmp_path / "no folder").write_text("")
    surroundings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "no folder")}
    command = [sys.executable, "-P", "-c", search, str(tmp_path / "bm25")]
    run = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    assert (run.stdout.strip(), run.stderr) == ("1", "")


def test_compiled_code_is_kept_for_these_sources_alone(tmp_path: Path) -> None:
    """Numba itself notices changes only in the file with the cached functions."""
    sources = [tmp_path / "kernels.py", tmp_path / "heap.py"]
    for source, own in zip(sources, (kernels.__file__, heap.__file__), strict=True):
        source.write_bytes(Path(own).read_bytes())
    name = version_of(*map(str, sources))
    assert kernels.search.py_func.__qualname__ == f"_search_{name}"
    sources[1].write_text(sources[1].read_text().replace("row > than_row", "row < than_row"))
    assert version_of(*map(str, sources)) != name


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
    monkeypatch.setattr(bm25_build, "_RUN", 4000)
    monkeypatch.setattr(bm25_build, "_SLAB", 300)
    corpus = corpus_of(tmp_path / "cut", texts)
    parts = [
        Shard(tmp_path / "cut" / "a", range(130)),
        Shard(tmp_path / "cut" / "b", range(130, 500)),
    ]
    told: list[tuple[int, int]] = []
    details = build_bm25(
        corpus, parts, tmp_path / "work", lambda *step: told.append(step), ANALYZER
    )
    assert told[-1] == (1000, 1000)
    assert not (tmp_path / "work").exists()
    assert details["terms"] == len(np.load(tmp_path / "whole" / "bm25" / "terms.npy"))
    asked = [query for query, _ in queries(40, 500)]
    expected = whole.search_rows(asked, 500)
    for part in parts:
        found = opened(*part).search_rows(asked, 500)
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
        opened(tmp_path / "two" / "bm25", range(1))
    (tmp_path / "two" / "bm25" / "rows.npy").write_bytes(b"")
    with pytest.raises(IndexFileError, match=r"rows.npy cannot be read"):
        opened(tmp_path / "two" / "bm25", range(1))
