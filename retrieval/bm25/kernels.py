"""The compiled part of BM25: add up postings and keep the best rows. Importing it compiles it or loads the
cache.

A query's words are always processed from the rarest to the most frequent, because sums of rounded numbers
depend on the order. Rows are processed in blocks that fit into the processor's caches. Within a block the
*essential* words (the rare ones without which no row can reach the best k) are added up for all rows, and
the others only for rows that can still reach the best k (MaxScore: Turtle and Flood, 1995). Skipped rows
cannot be among the best, so scores and ranks equal those of adding up everything.

Nothing here may raise or write out of bounds, whatever the files contain: damage is reported as a status.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

import numba
import numpy as np
import numpy.typing as npt
from numba import types

from prompt_coevo.retrieval.bm25 import heap
from prompt_coevo.retrieval.bm25.heap import compiled_part, keep, sort, version_of

BLOCK: Final = 1 << 15
"""Most rows in a block."""
DAMAGED: Final = -1
"""Returned instead of a number of hits: the postings are out of order or out of bounds."""

_FIRST_BLOCK = 1 << 10  # rows; small, because nothing can be skipped before k rows are known
_DENSE = 8  # with a posting every so many rows, a scan of all rows is cheaper than a list
_LOOK_UP = 64  # looking up a row in a list costs about as much as adding this many postings
_FORETASTE = 50  # one in so many postings, used to estimate the least score of a good row
_TINY = 1e-45  # above 0

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


class _Postings(NamedTuple):
    """The postings of all words, word after word."""

    rows: Rows
    scores: Floats


class _Words(NamedTuple):
    """A query's words, the rarest first.

    `places` and `stops` are the begin and end of each word's postings, `weights` its number in the query,
    and `bounds[n]` the most that the words from the n-th on can add to a row.
    """

    places: Ints
    stops: Ints
    weights: Floats
    bounds: Doubles


class _Block(NamedTuple):
    """A thread's buffers. `sums` are all 0 before and after; a block has one row fewer than `sums`."""

    sums: Floats
    chosen: Rows


class _Best(NamedTuple):
    """A heap of hits."""

    scores: Floats
    rows: Ints


@compiled_part
def _from(rows: Rows, place: int, stop: int, row: int) -> int:
    """Return the first place from `place` on whose row is at least `row`. Near rows are found fastest."""
    step = 1
    while place < stop and rows[place] < row:
        if place + step >= stop or rows[place + step] >= row:
            end = min(place + step, stop)
            place += 1
            while place < end:
                middle = (place + end) // 2
                if rows[middle] < row:
                    place = middle + 1
                else:
                    end = middle
            return place
        place += step
        step *= 2
    return place


@compiled_part
def _add(
    rows: Rows,
    scores: Floats,
    first: int,
    end: int,
    begin: int,
    width: int,
    weight: float,
    sums: Floats,
) -> None:
    """Add a word's scores to the rows of a block. Those of other rows go to the spare `sums[width]`."""
    own_rows, own_scores = rows[first:end], scores[first:end]
    beyond, factor = np.uint32(width), np.float32(weight)
    for number in range(len(own_rows)):
        # Unsigned, a row before the block is a large number, too.
        row = min(np.uint32(own_rows[number] - begin), beyond)
        sums[row] += factor * own_scores[number]


@compiled_part
def _add_new(
    rows: Rows,
    scores: Floats,
    first: int,
    end: int,
    begin: int,
    width: int,
    weight: float,
    sums: Floats,
    chosen: Rows,
    count: int,
) -> int:
    """Add like `_add`, and append rows that had no score before to the first `count` chosen rows."""
    own_rows, own_scores = rows[first:end], scores[first:end]
    beyond, factor = np.uint32(width), np.float32(weight)
    for number in range(len(own_rows)):
        row = min(np.uint32(own_rows[number] - begin), beyond)
        before = sums[row]
        chosen[count] = row
        count += before == 0 and count < width
        sums[row] = before + factor * own_scores[number]
    return count


@compiled_part
def _look_up(
    rows: Rows,
    scores: Floats,
    first: int,
    end: int,
    begin: int,
    weight: float,
    sums: Floats,
    chosen: Rows,
    count: int,
) -> None:
    """Add a word's scores to the chosen rows only."""
    factor = np.float32(weight)
    for number in range(count):
        row = chosen[number]
        low, left = first, end - first
        while left > 1:  # branch-free, because the branch would be unpredictable
            half = left >> 1
            low += half * (rows[low + half - 1] < begin + row)
            left -= half
        low += left > 0 and rows[low] < begin + row
        if low < end and rows[low] == begin + row:
            sums[row] += factor * scores[low]


@compiled_part
def _choose(sums: Floats, width: int, enough: float, chosen: Rows) -> int:
    """Choose the rows with at least this score; return how many."""
    limit, count = np.float32(max(enough, _TINY)), 0
    for row in range(width):
        chosen[count] = row
        count += sums[row] >= limit
    return count


@compiled_part
def _choose_again(sums: Floats, enough: float, chosen: Rows, count: int) -> int:
    """Filter the chosen rows again. Rejected rows stay behind them, because their sums must still be
    reset."""
    limit, left = np.float32(max(enough, _TINY)), 0
    for number in range(count):
        row = chosen[number]
        if sums[row] >= limit:
            chosen[number] = chosen[left]
            chosen[left] = row
            left += 1
    return left


@compiled_part
def _search_one(
    postings: _Postings, query: _Words, passages: int, block: _Block, least: float, best: _Best
) -> int:
    """Fill `best` in any order and return the number of hits. Rows below `least` may be skipped."""
    rows, scores = postings
    places, stops, weights, bounds = query
    sums, chosen = block
    best_scores, best_rows = best
    words = len(places)
    # A sum of n rounded numbers is off by at most n / 2^24 of itself; use several times that for safety.
    margin = max(1.0 - (words + 1) * 2.0**-22, 0.0)
    essential, found, need, begin = words, 0, least * margin, 0
    most = len(sums) - 1
    widest = min(_FIRST_BLOCK, most)
    while True:
        if found == len(best_scores):
            need = max(need, best_scores[0] * margin)
        while essential > 0 and bounds[essential - 1] < need:
            essential -= 1
        start, left = passages, 0
        for word in range(essential):
            if places[word] < stops[word]:
                start = min(start, rows[places[word]])
                left += stops[word] - places[word]
        if left == 0:
            return found
        if start < begin or start >= passages:
            return DAMAGED
        begin = start
        sparse = left * _DENSE < passages - begin
        width = min(most if sparse else widest, passages - begin)
        widest = min(2 * widest, most)
        # The chosen rows are the first `count` of `chosen`; before that, all rows of the block.
        count, remembered, added = (0 if sparse else width), 0, 0
        listed = sparse
        for word in range(words):
            if word >= essential and 2 * added >= count:
                if listed:
                    count = _choose_again(sums, need - bounds[word], chosen, count)
                else:
                    count = _choose(sums, width, need - bounds[word], chosen)
                    listed = 4 * count < width
                    count = count if listed else width
                added = 0
                if count == 0:
                    break
            if word >= essential and listed:
                expected = (stops[word] - places[word]) * width // (passages - begin)
                if count * _LOOK_UP < expected:
                    first, end = places[word], stops[word]
                    _look_up(rows, scores, first, end, begin, weights[word], sums, chosen, count)
                    added += count
                    continue
            first = _from(rows, places[word], stops[word], begin)
            end = _from(rows, first, stops[word], begin + width)
            places[word] = end
            added += end - first
            if sparse and word < essential:
                count = _add_new(
                    rows, scores, first, end, begin, width, weights[word], sums, chosen, count
                )
                remembered = count
            else:
                _add(rows, scores, first, end, begin, width, weights[word], sums)
                sparse = False
        if sums[width] != 0:
            sums[: width + 1] = 0
            return DAMAGED
        if count > 0:
            if listed:
                count = _choose_again(sums, need, chosen, count)
            else:
                count = _choose(sums, width, need, chosen)
            for number in range(count):
                row = chosen[number]
                found = keep(best_scores, best_rows, found, sums[row], begin + row)
        if sparse:
            for number in range(remembered):
                sums[chosen[number]] = 0
        else:
            sums[:width] = 0
        begin += width


@compiled_part
def _foretaste(
    postings: _Postings, query: _Words, passages: int, block: _Block, best: _Best
) -> float:
    """Return a score that at least the wanted number of rows reach; 0 if it cannot be found cheaply.

    It looks up the rows that are best by the rarest words alone in the other words' postings. Otherwise all
    postings of the first blocks would have to be added before enough good rows are known.
    """
    rows, scores = postings
    places, stops, weights, bounds = query
    words, wanted = len(places), len(best.scores)
    every = (stops - places).sum()
    few, some = 0, 0
    while few < words and (some + stops[few] - places[few]) * _FORETASTE <= every:
        some += stops[few] - places[few]
        few += 1
    if few == 0 or some < wanted or wanted * words * _LOOK_UP * 4 > every:
        return 0.0
    rarest = _Words(places[:few].copy(), stops, weights, bounds[: few + 1] - bounds[few])
    found = _search_one(postings, rarest, passages, block, 0.0, best)
    if found < wanted:
        return 0.0
    least = np.inf
    for hit in range(found):
        total = best.scores[hit]
        for word in range(few, words):
            at = _from(rows, places[word], stops[word], best.rows[hit])
            if at < stops[word] and rows[at] == best.rows[hit]:
                total += weights[word] * scores[at]
        least = min(least, total)
    return least


def _search(
    rows: Rows,
    scores: Floats,
    starts: Ints,
    highest: Floats,
    words: Ints,
    weights: Floats,
    queries: Ints,
    passages: int,
    sums: Floats,
    chosen: Rows,
    best_scores: npt.NDArray[np.float32],
    best_rows: npt.NDArray[np.int64],
    found: Ints,
) -> None:
    postings, block = _Postings(rows, scores), _Block(sums, chosen)
    for query in range(len(found)):
        own_words = words[queries[query] : queries[query + 1]]
        own_weights = weights[queries[query] : queries[query + 1]]
        count = len(own_words)
        places = np.empty(count, dtype=np.int64)
        stops = np.empty(count, dtype=np.int64)
        bounds = np.zeros(count + 1, dtype=np.float64)
        fits = True
        for number in range(count - 1, -1, -1):
            word = own_words[number]
            places[number], stops[number] = starts[word], starts[word + 1]
            fits &= 0 <= places[number] <= stops[number] <= len(rows)
            bounds[number] = bounds[number + 1] + own_weights[number] * highest[word]
        if not fits:
            found[query] = DAMAGED
            continue
        asked = _Words(places, stops, own_weights, bounds)
        best = _Best(best_scores[query], best_rows[query])
        least = _foretaste(postings, asked, passages, block, best)
        found[query] = _search_one(postings, asked, passages, block, least, best)
        sort(best.scores, best.rows, found[query])


def _read(kind: Any) -> Any:
    return types.Array(kind, 1, "C", readonly=True)


_I4, _I8, _F4 = types.int32, types.int64, types.float32
_SIGNATURE = types.void(
    *map(_read, (_I4, _F4, _I8, _F4, _I8, _F4, _I8)),
    *(_I8, _F4[::1], _I4[::1], _F4[:, ::1], _I8[:, ::1], _I8[::1]),
)


def _compiled() -> Callable[..., None]:
    try:
        # The cache is keyed by this name, and numba notices changes of this file alone.
        _search.__qualname__ = f"_search_{version_of(__file__, str(heap.__file__))}"
        return cast(Callable[..., None], numba.njit(_SIGNATURE, nogil=True, cache=True)(_search))
    except Exception:  # no folder for the cache, or a damaged cache
        return cast(Callable[..., None], numba.njit(_SIGNATURE, nogil=True)(_search))


search = _compiled()
