from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from helpers.passages import queries, write_corpus
from prompt_coevo.retrieval.corpus import Corpus
from prompt_coevo.retrieval.errors import RetrieverError
from prompt_coevo.retrieval.index import layout
from prompt_coevo.retrieval.index.build import Request, build
from prompt_coevo.retrieval.index.open import PassageIndex, describe, open_index
from prompt_coevo.retrieval.shards import Joined, merged


@dataclass
class Fixed:
    """Answers every query with the same ranking."""

    ranking: list[tuple[int, float]]
    closed: bool = False

    def search_rows(self, queries: Sequence[str], k: int) -> list[list[tuple[int, float]]]:
        return [self.ranking[:k] for _ in queries]

    def close(self) -> None:
        self.closed = True


def test_rankings_are_merged_by_score_and_then_by_row() -> None:
    first, second = [(1, 3.0), (0, 1.0)], [(7, 3.0), (5, 2.0), (6, 1.0)]
    assert merged([second, first], 4) == [(1, 3.0), (7, 3.0), (5, 2.0), (0, 1.0)]
    assert merged([[], first], 9) == first
    assert merged([[], []], 3) == []


def test_every_query_is_merged_for_itself_and_all_are_closed() -> None:
    one, two = Fixed([(0, 1.0)]), Fixed([(9, 2.0)])
    shards = Joined([one, two])
    assert shards.search_rows(["a", "b"], 1) == [[(9, 2.0)], [(9, 2.0)]]
    shards.close()
    assert one.closed
    assert two.closed


def test_a_sharded_index_answers_as_one_index(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.jsonl", 700)
    asked = [query for query, _ in queries(60, 700)] + ["painter", "which sailor also"]
    build(corpus, tmp_path / "one", Request())
    expected = open_index(tmp_path / "one").search(asked, 100)
    assert sum(map(len, expected)) > 2000
    for shards in (2, 7):
        made = build(corpus, tmp_path / f"{shards}", Request(shards=shards))
        assert len(made.shards) == shards
        assert open_index(tmp_path / f"{shards}").search(asked, 100) == expected


@pytest.mark.parametrize("row", [20, -1])
def test_a_row_that_the_corpus_does_not_have_is_one_sentence(tmp_path: Path, row: int) -> None:
    build(write_corpus(tmp_path / "corpus.jsonl", 20), tmp_path / "index")
    corpus = Corpus.open(tmp_path / "corpus.jsonl", tmp_path / "index" / layout.OFFSETS)
    index = PassageIndex(describe(tmp_path / "index"), corpus, Fixed([(3, 2.0), (row, 1.0)]))
    assert [hit.id for hit in index.search(["painter"], 1)[0]] == ["3"]
    with pytest.raises(
        RetrieverError, match=rf"\({row}, 1.0\)\] in a corpus of 20 passages; build"
    ):
        index.search(["painter"], 2)
