"""The best vectors of a fast search, the same on every machine.

A matrix product rounds: equal vectors get scores that differ in their last bits, depending on where they
stand in its blocks, which every kind of CPU cuts differently. And among equal scores faiss keeps any. So a
search asks for more vectors than wanted, and their inner products are computed again one by one: equal
vectors get equal scores, and the first comes first. If the last vector found is within the rounding error
of the best, others may be missing, and more are asked for.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from prompt_coevo.retrieval.dense.encoders import Vectors

Numbers: TypeAlias = npt.NDArray[np.int64]

# A sum of n products of float32 numbers, in any order, is off by at most n roundings of the sum of their
# magnitudes (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). A few more are added
# for vectors that are decoded first.
_ROUNDING, _MORE_ROUNDINGS = 2.0**-24, 16

_SPARE, _GROWTH = 4, 8
_NUMBERS_AT_ONCE = 1 << 18


class Searched(Protocol):
    """Vectors with a fast and inexact search."""

    most: int
    """Most vectors that it can find at once."""
    error: float
    """Error of its scores beyond the rounding of float32, relative to the terms' magnitudes."""

    def nearest(self, queries: Vectors, k: int) -> tuple[Vectors, Numbers]:
        """Search like `VectorIndex.search`, but inexactly, with equal scores in any order."""
        ...

    def vectors_at(self, numbers: Numbers) -> Vectors:
        """Return the vectors, [numbers, dimension]."""
        ...


def best(searched: Searched, queries: Vectors, k: int) -> tuple[Vectors, Numbers]:
    """Return the inner products and numbers of the best `k`, both [queries, k]; among equals the first
    comes first.

    This is exact if `searched` finds everything that its scores are good enough for and `most` holds all
    equal vectors. -1 is no vector.
    """
    scores = np.empty((len(queries), k), np.float32)
    numbers = np.empty((len(queries), k), np.int64)
    unsure = np.arange(len(queries))
    fetch = max(k, min(k + _SPARE, searched.most))
    while len(unsure):
        asked = queries[unsure]
        near, found = searched.nearest(asked, fetch)
        exact, slack = _exact(searched, asked, found)
        order = np.lexsort((found, -exact))[:, :k]
        scores[unsure] = np.take_along_axis(exact, order, 1)
        numbers[unsure] = np.take_along_axis(found, order, 1)
        if fetch >= searched.most:
            break
        may_miss = (found[:, -1] >= 0) & (near[:, -1] + slack >= scores[unsure, -1])
        unsure = unsure[may_miss]
        fetch = min(_GROWTH * fetch, searched.most)
    return scores, numbers


def _exact(
    searched: Searched, queries: Vectors, found: Numbers
) -> tuple[Vectors, npt.NDArray[np.float64]]:
    """Compute each pair's inner product, [queries, found], and the largest error of a query's scores.

    Products of float32 numbers are exact in float64, and the sum of a row does not depend on the others.
    """
    width = found.shape[1]
    pairs = found.ravel()
    products, magnitudes = np.empty(len(pairs)), np.empty(len(pairs))
    step = max(1, _NUMBERS_AT_ONCE // queries.shape[1])
    for first in range(0, len(pairs), step):
        part = slice(first, min(first + step, len(pairs)))
        vectors = searched.vectors_at(np.maximum(pairs[part], 0))
        owners = queries[np.arange(part.start, part.stop) // width]
        terms = np.multiply(vectors, owners, dtype=np.float64)
        products[part] = terms.sum(1)
        magnitudes[part] = np.abs(terms, out=terms).sum(1)
    products[pairs < 0] = -np.inf
    exact: Vectors = products.astype(np.float32).reshape(found.shape)
    error = (queries.shape[1] + _MORE_ROUNDINGS) * _ROUNDING + searched.error
    return exact, error * magnitudes.reshape(found.shape).max(1)
