from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompt_coevo.retrieval.dense.faiss_package import load_faiss
from prompt_coevo.retrieval.dense.ranking import best
from prompt_coevo.retrieval.dense.search import FaissVectors, FlatVectors

pytestmark = pytest.mark.usefixtures("one_thread_of_faiss")

ROUNDING = 2.0**-24


class Rounding:
    """Search with the largest error that rounding allows, at the expense of the first rows.

    Only the rows of `findable` are found, and of equal scores the last row comes first.
    """

    error = 0.0

    def __init__(self, vectors: Any, findable: int | None = None) -> None:
        self.vectors = vectors
        self.most = len(vectors)
        self.findable = len(vectors) if findable is None else findable
        self.asked: list[tuple[int, int]] = []

    def nearest(self, queries: Any, k: int) -> tuple[Any, Any]:
        self.asked.append((len(queries), k))
        terms = queries[:, None].astype(np.float64) * self.vectors[: self.findable]
        worst = terms.shape[-1] * ROUNDING * np.abs(terms).sum(-1)
        scores = (terms.sum(-1) + worst * np.linspace(-1, 1, self.findable)).astype(np.float32)
        order = np.lexsort((np.broadcast_to(-np.arange(self.findable), scores.shape), -scores))
        found = np.full((len(queries), k), -1)
        near = np.full((len(queries), k), np.float32(-3e38))
        found[:, : self.findable] = order[:, :k]
        near[:, : self.findable] = np.take_along_axis(scores, order, 1)[:, :k]
        return near, found

    def vectors_at(self, numbers: Any) -> Any:
        return self.vectors[numbers]


def sixteenths(seed: int, *shape: int) -> Any:
    """Draw vectors whose inner products are exact in float32, in any order of addition."""
    return (np.random.default_rng(seed).integers(-16, 17, shape) / 16).astype(np.float32)


def by_hand(vectors: Any, queries: Any, k: int) -> Any:
    scores = queries @ vectors.T
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 6), st.data())
def test_the_best_are_the_best_and_equals_come_in_their_order(
    seed: int, count: int, different: int, data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, count))
    numbers = np.random.default_rng(seed).integers(0, different, count)
    vectors, queries = sixteenths(seed, different, 48)[numbers], sixteenths(seed + 1, 5, 48)
    scores, found = best(Rounding(vectors), queries, k)
    assert found.tolist() == by_hand(vectors, queries, k).tolist()
    assert (scores == np.take_along_axis(queries @ vectors.T, found, 1)).all()


def test_more_are_asked_for_while_equals_may_be_missing_and_only_then() -> None:
    vectors, queries = sixteenths(0, 3000, 64), sixteenths(1, 4, 64)
    vectors[1000:] = queries[2]
    searched = Rounding(vectors)
    _, found = best(searched, queries, 3)
    assert found.tolist() == by_hand(vectors, queries, 3).tolist()
    assert found[2].tolist() == [1000, 1001, 1002]
    (first, least), *more = searched.asked
    assert (first, more[-1]) == (4, (1, 3000))
    assert all(queries == 1 for queries, _ in more)
    assert least < 20


def test_what_is_not_found_is_no_vector() -> None:
    vectors, queries = sixteenths(0, 30, 16), sixteenths(1, 2, 16)
    searched = Rounding(vectors, findable=4)
    scores, found = best(searched, queries, 6)
    assert found[:, :4].tolist() == by_hand(vectors[:4], queries, 4).tolist()
    assert (found[:, 4:] == -1).all()
    assert (scores[:, 4:] == -np.inf).all()
    assert len(searched.asked) == 1


def unit(seed: int, *shape: int) -> Any:
    vectors = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def made(kind: str, vectors: Any, folder: Path) -> Any:
    faiss = load_faiss()
    if kind == "file":
        np.save(folder / "vectors.npy", vectors)
        return FlatVectors(faiss, folder / "vectors.npy")
    index = faiss.index_factory(vectors.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    index.add(vectors)
    return FaissVectors(faiss, index)


@pytest.mark.parametrize("kind", ["file", "Flat", "SQfp16", "SQ8", "IVF1,Flat", "IVF1,SQ8"])
@pytest.mark.parametrize("dimension", [24, 64, 384])
def test_equal_vectors_come_in_their_order_with_this_machine_s_kernels(
    tmp_path: Path, kind: str, dimension: int
) -> None:
    """A single kernel may pass by chance, but no CPU passes all: later better vectors push out any."""
    for count, threads in itertools.product((20, 37, 301), (1, 2)):
        load_faiss().omp_set_num_threads(threads)
        vectors = np.repeat(unit(0, 1, dimension), count, axis=0)
        vectors[-2:] = unit(1, dimension)
        index = made(kind, vectors, tmp_path)
        queries = unit(2, 33, dimension)
        for batch in (queries[:1], queries[:2], queries[:5], queries):
            last = count - 2
            twins = [[last, last + 1, 0, 1, 2], [0, 1, 2, 3, 4]]
            for query, found in zip(batch, index.search(batch, 5)[1].tolist(), strict=True):
                assert found == twins[int(query @ vectors[0] > query @ vectors[-1])]


@pytest.mark.parametrize("kind", ["HNSW8,Flat", "HNSW8,SQ8"])
def test_equal_vectors_that_a_graph_finds_come_in_their_order(tmp_path: Path, kind: str) -> None:
    vectors = np.repeat(unit(0, 20, 64), 5, axis=0)
    index = made(kind, vectors, tmp_path)
    for scores, found in zip(*index.search(unit(2, 9, 64), 20), strict=True):
        pairs = list(zip((-scores).tolist(), found.tolist(), strict=True))
        assert pairs == sorted(pairs)
        assert len(set(scores.tolist())) == len({number // 5 for number in found.tolist()})


def test_a_score_does_not_depend_on_what_stands_beside(tmp_path: Path) -> None:
    vectors, queries = unit(0, 200, 100), unit(1, 17, 100)
    whole = made("file", vectors, tmp_path).search(queries, 200)
    scores = np.empty((17, 200), np.float32)
    np.put_along_axis(scores, whole[1], whole[0], 1)
    for rows in (range(3, 200), range(101, 104), range(199, 200)):
        part = made("file", vectors[rows.start : rows.stop], tmp_path)
        for first, end in ((0, 1), (4, 17)):
            found = part.search(queries[first:end], len(rows))
            wanted = scores[first:end, rows.start : rows.stop]
            assert (found[0] == np.take_along_axis(wanted, found[1], 1)).all()


def test_types_that_lose_their_vectors_are_searched_as_they_are(tmp_path: Path) -> None:
    vectors = unit(0, 300, 32)
    index = made("PQ4x4", vectors, tmp_path)
    scores, numbers = index.search(vectors[:1], 5)
    own_scores, own_numbers = index.index.search(vectors[:1], 5)
    assert numbers.tolist() == own_numbers.tolist()
    assert scores.tolist() == own_scores.tolist()
