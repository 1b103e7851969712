"""The retriever interface: the best passages for some queries."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from prompt_coevo.retrieval.errors import QueryError, RetrieverError

_HALF_PAIR: Final = re.compile(r"[\ud800-\udfff]")
_LONGEST_SHOWN: Final = 80
_INFINITE: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage found; rank 1 is the best. Scores compare within one query only.

    `fields` are the row's other fields, such as a title or an address, as JSON values.
    """

    id: str
    contents: str
    score: float
    rank: int
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class IndexInfo:
    """A description of the searched index. The fingerprint changes with the corpus, the encoder and the
    index."""

    kind: str
    passages: int
    fingerprint: str
    details: Mapping[str, Any] = field(default_factory=dict)


class Retriever(Protocol):
    """An index, or the client of a server that has one."""

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the best `k` passages for each query, best first; fewer if there are fewer.

        Raises QueryError for what `check_search` refuses, RetrieverUnavailable if no answer is available.
        """
        ...

    def info(self) -> IndexInfo:
        """Describe what is searched. Raises RetrieverUnavailable if no answer is available."""
        ...

    def close(self) -> None:
        """Release files and connections; a closed retriever must not be used."""
        ...


@dataclass(frozen=True)
class Limits:
    """Limits of one search."""

    max_k: int = 100
    max_query_chars: int = 10_000
    max_queries: int = 16_384


UNLIMITED: Final = Limits(sys.maxsize, sys.maxsize, sys.maxsize)


def check_search(queries: Sequence[str], k: int, limits: Limits | None = None) -> None:
    """Raise QueryError for a search that no retriever accepts."""
    limits = limits or Limits()
    if isinstance(queries, str):
        raise QueryError("queries must be a list of texts, but is one text; put it into a list")
    check_size(len(queries), k, limits)
    for number, query in enumerate(queries):
        if (problem := query_problem(query, limits.max_query_chars)) is not None:
            raise QueryError(f"query {number} {problem}")


def check_size(count: int, k: int, limits: Limits) -> None:
    """Raise QueryError for too many queries or an invalid `k`."""
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= limits.max_k:
        raise QueryError(f"k must be a number from 1 to {limits.max_k}, but is {shown(k)}")
    if count > limits.max_queries:
        raise QueryError(f"{count} queries at once, at most {limits.max_queries} are allowed")


def query_problem(query: object, max_chars: int) -> str | None:
    """Return why this is no valid query, as the rest of a sentence that begins with the query; None if it
    is."""
    if not isinstance(query, str):
        return f"must be a text, but is a {type(query).__name__}"
    if not query.strip():
        return "is empty"
    if not query.isascii() and _HALF_PAIR.search(query):
        return "holds half of a surrogate pair, which is no character"
    if len(query) > max_chars:
        return f"has {len(query)} characters, at most {max_chars} are allowed"
    return None


def shortened(query: str, max_chars: int) -> str:
    """Return a long query's beginning, to the end of a word if possible; return a short query unchanged."""
    query = query if len(query) <= max_chars else query.strip()
    if len(query) <= max_chars:
        return query
    if query[max_chars - 1].isspace() or query[max_chars].isspace():
        return query[:max_chars].rstrip()
    whole_words = query[:max_chars].rsplit(None, 1)[:-1]
    return whole_words[0] if whole_words else query[:max_chars]


def shown(value: object) -> str:
    """Format an untrusted value for an error; containers are not shown, as they may be too deep or too
    long."""
    simple = value is None or isinstance(value, bool | int | float | str)
    return repr(value)[:_LONGEST_SHOWN] if simple else described(value)


def described(value: object) -> str:
    """Name a value's type for an error."""
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    return "None" if value is None else f"a {type(value).__name__}"


def ranked(rows: Iterable[tuple[Mapping[str, Any], float]]) -> list[Hit]:
    """Make hits from rows with scores, best first, as most backends return them.

    A row has `contents`, and usually an `id`; its other entries become the hit's `fields`. Raises
    RetrieverError for a row or a score of another shape.
    """
    hits: list[Hit] = []
    for row, score in rows:
        if not isinstance(row, Mapping) or not isinstance(row.get("contents"), str):
            has = (
                ", ".join(map(shown, row)) or "nothing"
                if isinstance(row, Mapping)
                else described(row)
            )
            raise RetrieverError(
                f"a row that was found has no text under 'contents', but {has:.200}; give the backend rows "
                'such as {"id": "7", "contents": "..."}'
            )
        fields = {name: value for name, value in row.items() if name not in ("id", "contents")}
        own_id = row.get("id")
        name = "" if own_id is None else str(own_id)
        try:
            hits.append(Hit(name, row["contents"], float(score), len(hits) + 1, fields))
        except (TypeError, ValueError):
            raise RetrieverError(
                f"a row that was found has {shown(score)} as its score, not a number"
            ) from None
    return hits


def checked_search(retriever: Retriever, queries: Sequence[str], k: int) -> list[list[Hit]]:
    """Search, and raise RetrieverError for an answer that violates the protocol."""
    found = retriever.search(queries, k)
    if (problem := _misfit(found, len(queries), k)) is not None:
        raise RetrieverError(
            f"the retriever {type(retriever).__qualname__} answered a search (queries: {len(queries)}, "
            f"k: {k}) with {problem}; its method search must return a list with a list of Hit for each "
            "query, the best first"
        )
    return found


def checked_info(retriever: Retriever) -> IndexInfo:
    """Return the retriever's info. Raises RetrieverError if it is no IndexInfo."""
    info = retriever.info()
    if not isinstance(info, IndexInfo):
        raise RetrieverError(
            f"the retriever {type(retriever).__qualname__} says {described(info)} about itself; its method "
            "info must return an IndexInfo"
        )
    return info


def _misfit(found: object, count: int, k: int) -> str | None:
    if not isinstance(found, list):
        return described(found)
    if len(found) != count:
        return f"{len(found)} lists"
    for hits in found:
        if not isinstance(hits, list):
            return f"{described(hits)} among the lists"
        if len(hits) > k:
            return f"{len(hits)} passages in one list"
        for hit in hits:
            if not isinstance(hit, Hit):
                return f"{described(hit)} among the hits"
            if not isinstance(hit.contents, str) or not isinstance(hit.id, str):
                return f"a hit whose id and contents are {hit.id!r} and {hit.contents!r:.40}, not texts"
            if not isinstance(hit.fields, Mapping) or any(
                type(one) is not str for one in hit.fields
            ):
                return f"a hit whose fields are {hit.fields!r:.40}, not a mapping from texts"
            # numpy's numbers look like numbers, but cannot be serialised.
            if type(hit.score) not in (float, int):
                return f"a hit whose score is a {type(hit.score).__name__}, not a float"
            if not -_INFINITE < hit.score < _INFINITE:
                return f"a hit whose score is {hit.score}, which is no finite number"
    return None
