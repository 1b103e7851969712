"""The retriever "chroma": a collection on a Chroma server, one that `push` filled or any other."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, Final, TypeAlias

from prompt_coevo.retrieval.chroma.server import (
    DEFAULT_DATABASE,
    DEFAULT_TENANT,
    ChromaServer,
    Collection,
    Found,
    NoCollection,
)
from prompt_coevo.retrieval.dense.encoder_recipes import Recipe, resolve
from prompt_coevo.retrieval.dense.encoders import Encoder, Vectors, load
from prompt_coevo.retrieval.errors import RetrieverError, RetrieverUnavailable
from prompt_coevo.retrieval.retriever import Hit, IndexInfo, check_search, ranked

_QUERIES_AT_ONCE: Final = 256  # all that a search may have would exceed what the server reads
_MOST_EQUAL: Final = 1024

_Opened: TypeAlias = tuple[Collection, Encoder]


class Chroma:
    """Search a collection by an encoder's vectors; its documents are the passages.

    `encoder` may be left out if `push` filled the collection. Then equal passages come in the corpus'
    order, and the hits have its fields, otherwise their metadata. If the server is down, the collection is
    checked when it is back.

    Raises RetrieverError for what cannot be searched, SettingsError, EncoderError, MissingExtraError.
    """

    def __init__(
        self,
        url: str,
        collection: str,
        encoder: str | None = None,
        tenant: str = DEFAULT_TENANT,
        database: str = DEFAULT_DATABASE,
        timeout_s: float = 60.0,
    ) -> None:
        self._server = ChromaServer(url, tenant, database, timeout_s)
        self._name, self._encoder = collection, encoder
        self._lock = threading.Lock()
        self._opened: _Opened | None = None
        try:
            with suppress(RetrieverUnavailable):
                self._open()
        except Exception:
            self.close()
            raise

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Search, as `Retriever.search`."""
        check_search(queries, k)
        if not queries:
            return []
        collection, encoder = self._open()
        vectors = encoder.encode_queries(queries)
        found: list[list[Found]] = []
        for first in range(0, len(vectors), _QUERIES_AT_ONCE):
            part = vectors[first : first + _QUERIES_AT_ONCE]
            found += self._server.query(collection, part, k + 1)
        return [self._hits(collection, vectors[n : n + 1], one, k) for n, one in enumerate(found)]

    def info(self) -> IndexInfo:
        """Describe the collection, as `Retriever.info`. The fingerprint changes with the pushed index and
        with the number of rows."""
        collection, encoder = self._open()
        count = self._server.count(collection)
        data = collection.marks.index if collection.marks else collection.id
        told = json.dumps([data, count, encoder.sha256, asdict(encoder.source.recipe)])
        details = {
            "url": self._server.url,
            "collection": collection.name,
            "metric": collection.space,
            "encoder": encoder.source.name,
        }
        return IndexInfo("chroma", count, hashlib.sha256(told.encode()).hexdigest()[:32], details)

    def close(self) -> None:
        """Close, as `Retriever.close`."""
        self._server.close()

    def _open(self) -> _Opened:
        with self._lock:
            if self._opened is None:
                self._opened = self._checked()
            return self._opened

    def _checked(self) -> _Opened:
        where = f"the collection {self._name!r} on {self._server.url}"
        try:
            found = self._server.collection(self._name)
        except NoCollection:
            raise RetrieverError(
                f"{where} does not exist; fill it by `prompt-coevo retrieval push`, or name another"
            ) from None
        marks = found.marks
        if marks and not marks.complete:
            raise RetrieverError(
                f"{where} has {self._server.count(found)} of {marks.rows} rows, because its push was not "
                "finished; run the same `prompt-coevo retrieval push` again"
            )
        if found.dimension is None:
            raise RetrieverError(f"{where} is empty; fill it first")
        name = self._encoder or (marks.encoder if marks else None)
        if name is None:
            raise RetrieverError(f"{where} does not name its encoder; set the option encoder")
        source = resolve(name)
        if marks and self._encoder is None:
            source = replace(source, recipe=Recipe(**marks.recipe))
        encoder = load(source)
        if found.dimension != encoder.dimension:
            raise RetrieverError(
                f"{where} has vectors of {found.dimension} numbers, but the encoder {name} makes "
                f"{encoder.dimension}; name the encoder that it was filled with"
            )
        own = encoder.sha256, asdict(source.recipe)
        if marks and own != (marks.sha256, marks.recipe):
            raise RetrieverError(
                f"{where} was filled with the encoder {marks.encoder}, but {name} is another one now; name "
                "that one, or push the index again"
            )
        # Of vectors of length 1 the cosine is the inner product.
        spaces = ("ip", "cosine") if source.recipe.normalize else ("ip",)
        if found.space not in spaces:
            raise RetrieverError(
                f"{where} compares by {found.space!r}, but the encoder {name} needs "
                f"{' or '.join(map(repr, spaces))}; fill a collection that has it"
            )
        return found, encoder

    def _hits(
        self, collection: Collection, vector: Vectors, found: list[Found], k: int
    ) -> list[Hit]:
        """Make hits of at least `k` + 1 rows, if there are so many. The first of equal ones comes first."""
        asked = k + 1
        # Unless all equal rows were found, it is up to the server which of them were.
        while len(found) == asked <= _MOST_EQUAL and found[k - 1].distance == found[-1].distance:
            asked *= 4
            (found,) = self._server.query(collection, vector, asked)
        if collection.marks:
            found = sorted(found, key=_distance_and_row)
        return ranked((_row(collection, one), 1.0 - one.distance) for one in found[:k])


def _distance_and_row(found: Found) -> tuple[float, float]:
    return found.distance, found.metadata.get("row", math.inf)  # none if another added it


def _row(collection: Collection, found: Found) -> dict[str, Any]:
    fields = found.metadata
    if collection.marks:
        fields = json.loads(fields.get("fields", "{}"))
    return {**fields, "id": found.id, "contents": found.contents}
