"""The laws of retrievers.

    from prompt_coevo.testing.retriever import RetrieverLaws

    class TestMine(RetrieverLaws):
        @contextmanager
        def retriever(self, passages):
            yield MyIndex(passages)

`passages` are pairs of id and contents, in row order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, ClassVar, Final, TypeAlias

from prompt_coevo.retrieval.errors import QueryError, RetrieverUnavailable
from prompt_coevo.retrieval.retriever import Hit, Limits, Retriever
from prompt_coevo.testing.checks import at_once, raises, skip

Passages: TypeAlias = Sequence[tuple[str, str]]

_ABOUT: Final = (
    ("zebra", "stripes and hooves on the dry plain"),
    ("quartz", "a clear mineral of silicon found in most rocks"),
    ("fjord", "a long narrow inlet of the sea between cliffs"),
    ("violin", "four strings played with a bow of horse hair"),
    ("yeast", "what makes bread rise and beer ferment"),
    ("comet", "a body of ice with a tail that points away from the sun"),
    ("abacus", "beads on rods for sums"),
    ("lichen", "a fungus and an alga that live together on bark and stone"),
)
_TWIN: Final = '"Twin"\nthe glockenspiel has tuned bars of steel struck with mallets'
_ROWS: Final = [f'"{name.title()}"\n{name} is {text}' for name, text in _ABOUT]

PASSAGES: Final[Passages] = [
    (f"id {row}", contents)
    for row, contents in enumerate([*_ROWS[:3], _TWIN, *_ROWS[3:6], _TWIN, *_ROWS[6:], _TWIN])
]
"""Eleven passages, three of them equal."""

_QUERIES: Final = [
    "a body of ice with a tail that points away from the sun",
    "a clear mineral of silicon found in most rocks",
    "four strings played with a bow",
    "abacus",
    "zebra stripes",
    "abacus",
]
"""Longer queries first, one of them twice."""

_REFUSED: Final[list[tuple[Any, Any]]] = [
    ([""], 3),
    (["fjord", " \n"], 3),
    (["fjord"], 0),
    (["fjord"], -1),
    (["fjord"], True),
    (["fjord"], 2.0),
    (["fjord"], Limits().max_k + 1),
    ("fjord", 3),
    ([7], 3),
    ([None], 3),
    (["x" * (Limits().max_query_chars + 1)], 3),
]
_ODD: Final = [
    "?!",
    "\x00 fjord",
    "\u202e drojf",
    "👩‍🚀",
    "\ud800 fjord",
    "fjord " * 1600,
    "\tfjord\n",
    "Ünïcödé",
]


class RetrieverLaws:
    """Subclass this and implement `retriever`."""

    may_be_down: ClassVar[bool] = False
    """True if the retriever depends on something that may fail for a while; then implement `outage`."""

    def retriever(self, passages: Passages) -> AbstractContextManager[Retriever]:
        """Open a retriever over these passages. The same passages may get the same retriever."""
        raise NotImplementedError

    def outage(self, retriever: Retriever) -> AbstractContextManager[object]:
        """Take down what the retriever needs inside the context, and bring it back afterwards."""
        raise NotImplementedError

    # Answers

    def test_a_batch_is_answered_as_its_queries_alone(self) -> None:
        """There is one list of hits per query, in order, also for equal queries."""
        with self.retriever(PASSAGES) as retriever:
            alone = [retriever.search([query], 4)[0] for query in _QUERIES]
            for queries in (_QUERIES, _QUERIES[::-1], tuple(_QUERIES)):
                found = retriever.search(queries, 4)
                assert len(found) == len(queries), f"{len(found)} lists for {len(queries)} queries"
                for query, hits in zip(queries, found, strict=True):
                    _check_same(alone[_QUERIES.index(query)], hits, query)
            assert retriever.search([], 4) == [], "there is a list without a query"

    def test_a_passage_is_found_by_its_own_words(self) -> None:
        """Every passage is found by its own words, with its id."""
        with self.retriever(PASSAGES) as retriever:
            found = retriever.search([contents for _, contents in PASSAGES], 1)
            for (name, contents), hits in zip(PASSAGES, found, strict=True):
                assert len(hits) == 1, f"{len(hits)} hits for k = 1"
                assert hits[0].contents == contents, f"{hits[0].contents!r} for {contents!r}"
                assert contents == _TWIN or hits[0].id == name, f"{hits[0].id!r} is not {name!r}"

    def test_hits_are_ranked(self) -> None:
        """Ranks are 1, 2, 3, ...; scores are finite and never rise; ids are unique, with their contents."""
        with self.retriever(PASSAGES) as retriever:
            for k in (1, 3, len(PASSAGES)):
                for query, hits in zip(_QUERIES, retriever.search(_QUERIES, k), strict=True):
                    assert len(hits) <= k, f"{len(hits)} hits for k = {k}"
                    _check_hits(hits, query)

    def test_fewer_hits_are_the_first_of_more(self) -> None:
        """A smaller k only shortens the list."""
        with self.retriever(PASSAGES) as retriever:
            for query in _QUERIES:
                (more,) = retriever.search([query], 9)
                for k in (1, 2, 5):
                    _check_same(more[:k], retriever.search([query], k)[0], query)

    def test_more_passages_than_there_are_cannot_be_found(self) -> None:
        """If k exceeds the number of passages, the list is shorter and nothing fills it up."""
        with self.retriever(PASSAGES) as retriever:
            for query, hits in zip(_QUERIES, retriever.search(_QUERIES, 100), strict=True):
                assert len(hits) <= len(PASSAGES), f"{len(hits)} of {len(PASSAGES)} passages"
                _check_hits(hits, query)
        with self.retriever(PASSAGES[:1]) as retriever:
            (hits,) = retriever.search([PASSAGES[0][1]], 100)
            assert [hit.id for hit in hits] == [PASSAGES[0][0]], f"the one passage, not {hits}"

    def test_of_equal_passages_the_first_row_comes_first(self) -> None:
        """Equal passages come in row order, for any k."""
        twins = [name for name, contents in PASSAGES if contents == _TWIN]
        with self.retriever(PASSAGES) as retriever:
            for k in (2, 3, 6):
                (hits,) = retriever.search([_TWIN], k)
                found = [hit.id for hit in hits][:3]
                assert found == twins[:k], f"equal passages came as {found}, not as {twins}"

    def test_the_callers_lists_are_its_own(self) -> None:
        """Queries stay unchanged, and what a caller does to its hits affects no other caller."""
        with self.retriever(PASSAGES) as retriever:
            queries = list(_QUERIES)
            found = retriever.search(queries, 3)
            assert queries == _QUERIES, "the caller's queries were changed"
            before = [list(hits) for hits in found]
            found[0].clear()
            found[3].reverse()
            again = retriever.search(queries, 3)
            for query, mine, theirs in zip(queries, before, again, strict=True):
                _check_same(mine, theirs, query)
            _check_same(before[5], found[5], "a query that was asked twice")

    # Refusals

    def test_what_cannot_be_asked_is_refused(self) -> None:
        """QueryError is raised, whatever else is in the batch, and the next query is answered."""
        with self.retriever(PASSAGES) as retriever:
            _check_refusals(retriever)
            assert retriever.search(["fjord"], 1)[0], "after a refusal nothing is found"

    def test_odd_queries_are_answered_or_refused(self) -> None:
        """Any text is answered or raises QueryError, nothing else."""
        with self.retriever(PASSAGES) as retriever:
            for query in _ODD:
                try:
                    (hits,) = retriever.search([query], 4)
                except QueryError:
                    continue
                _check_hits(hits, query)

    # The retriever

    def test_info_says_what_is_searched(self) -> None:
        """Info is the same every time, and another corpus has another fingerprint."""
        with self.retriever(PASSAGES) as retriever:
            info = retriever.info()
            assert info == retriever.info(), "info differs the second time"
        assert info.passages == len(PASSAGES), f"{info.passages} of {len(PASSAGES)} passages"
        assert info.kind, "the kind is empty"
        assert info.fingerprint, "the fingerprint is empty"
        json.dumps(dict(info.details))
        with self.retriever(PASSAGES[:1]) as retriever:
            other = retriever.info()
        assert other.passages == 1, f"{other.passages} passages, where there is one"
        assert other.fingerprint != info.fingerprint, "two corpora have the same fingerprint"

    def test_threads_do_not_mix(self) -> None:
        """Several threads may search at the same time, and each gets its own hits."""
        with self.retriever(PASSAGES) as retriever:
            alone = {query: retriever.search([query], 3)[0] for query in _QUERIES}

            def search(number: int) -> list[tuple[str, list[Hit]]]:
                queries = _QUERIES[number % 5 :] + _QUERIES[: number % 5]
                hits = [*retriever.search(queries, 3), *retriever.search(queries[:1], 3)]
                return list(zip([*queries, queries[0]], hits, strict=True))

            for found in at_once(search):
                for query, hits in found:
                    _check_same(alone[query], hits, query)

    def test_an_outage_is_told_and_passes(self) -> None:
        """During an outage it raises RetrieverUnavailable, never finds nothing; afterwards it answers."""
        if not self.may_be_down:
            skip("nothing that it needs may be down")
        with self.retriever(PASSAGES) as retriever:
            expected = retriever.search(_QUERIES, 4)
            info = retriever.info()
            with self.outage(retriever):
                for queries in (["never asked before"], ["fjord", "never asked before"]):
                    search = partial(retriever.search, queries, 2)
                    raises(RetrieverUnavailable, search, f"during an outage {queries}")
                raises(RetrieverUnavailable, retriever.info, "during an outage info")
                _check_refusals(retriever)
            assert retriever.info() == info, "info differs after the outage"
            for query, mine, theirs in zip(
                _QUERIES, expected, retriever.search(_QUERIES, 4), strict=True
            ):
                _check_same(mine, theirs, query)
            retriever.search(["never asked before"], 2)


def _check_hits(hits: Sequence[Hit], query: str) -> None:
    told = f"for the query {query!r:.80}"
    contents = dict(PASSAGES)
    ranks = [hit.rank for hit in hits]
    assert ranks == list(range(1, len(hits) + 1)), f"{told} the ranks are {ranks}"
    names = [hit.id for hit in hits]
    assert len(set(names)) == len(names), f"{told} a passage was found twice: {names}"
    for hit in hits:
        assert contents.get(hit.id) == hit.contents, f"{told} there is no such passage: {hit}"
        assert math.isfinite(hit.score), f"{told} a score is {hit.score}"
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True), f"{told} the scores rise: {scores}"


def _check_same(one: Sequence[Hit], other: Sequence[Hit], query: str) -> None:
    """Check that both have the same passages in the same places; a batch may round scores differently."""
    names = [[(hit.id, hit.rank) for hit in hits] for hits in (one, other)]
    assert names[0] == names[1], f"for the query {query!r:.80} once {names[0]}, once {names[1]}"
    near = 1e-3 * max((abs(hit.score) for hit in one), default=0.0)
    for mine, theirs in zip(one, other, strict=True):
        close = math.isclose(mine.score, theirs.score, rel_tol=0.0, abs_tol=near)
        assert close, f"for the query {query!r:.80} a score is {mine.score} and {theirs.score}"


def _check_refusals(retriever: Retriever) -> None:
    for queries, k in _REFUSED:
        search = partial(retriever.search, queries, k)
        raises(QueryError, search, f"{queries!r:.60} with k = {k!r}")
