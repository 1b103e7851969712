"""Chroma's HTTP API, version 2, and what a pushed collection says about itself.

Chroma is built in because its server comes in a wheel (`chromadb`), so the tests run the real one. These
few requests need nothing but aiohttp; the client `chromadb-client` comes with 34 more packages.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlunsplit

from prompt_coevo.errors import SettingsError
from prompt_coevo.extras import require
from prompt_coevo.redact import redact
from prompt_coevo.retrieval.client.loop_thread import LoopThread
from prompt_coevo.retrieval.client.urls import http_parts
from prompt_coevo.retrieval.dense.encoders import Vectors
from prompt_coevo.retrieval.errors import RetrieverError, RetrieverUnavailable

if TYPE_CHECKING:
    import aiohttp

TOKEN_VARIABLE: Final = "CHROMA_API_KEY"
"""The variable that Chroma's own client reads."""
DEFAULT_TENANT, DEFAULT_DATABASE = "default_tenant", "default_database"

_MARKS: Final = "prompt_coevo"


@dataclass(frozen=True)
class Marks:
    """What `push` writes about a collection: the index' fingerprint, the number of its passages, its
    encoder as in its manifest, and whether all rows are there."""

    index: str
    rows: int
    encoder: str
    sha256: str
    recipe: Mapping[str, Any]
    complete: bool

    def metadata(self) -> dict[str, str]:
        """Return the collection's metadata, which cannot be nested."""
        return {_MARKS: json.dumps(asdict(self))}


class Collection(NamedTuple):
    """A collection. `space` is its metric, `dimension` None before the first row."""

    id: str
    name: str
    space: str
    dimension: int | None
    marks: Marks | None


class Found(NamedTuple):
    """A row that was found, and its distance from the query."""

    id: str
    contents: Any
    metadata: Mapping[str, Any]
    distance: float


class NoCollection(RetrieverUnavailable):
    """The collection, or the database, is not there, perhaps no more."""


class ChromaServer:
    """The collections of one database. Safe to use from several threads.

    All methods raise RetrieverUnavailable if the server does not answer, NoCollection if it has no such
    collection, and RetrieverError if it refuses a request or is not Chroma. Raises SettingsError for an
    impossible address or name.
    """

    def __init__(self, url: str, tenant: str, database: str, timeout_s: float) -> None:
        require("aiohttp", "orjson", extra="retrieval", purpose="Chroma")
        parts = http_parts(url)
        if parts is None or parts.query or parts.fragment:
            raise SettingsError(
                f"{redact(url)!r} is no address of a Chroma server; it should look like "
                "http://127.0.0.1:8000"
            )
        parts = parts._replace(path=parts.path.rstrip("/"))
        base = urlunsplit(parts)
        self.url = redact(base)
        place = f"tenants/{_in_path(tenant)}/databases/{_in_path(database)}/collections"
        self._collections = f"{base}/api/v2/{place}"
        self._token = os.environ.get(TOKEN_VARIABLE, "").strip()
        self._timeout_s = timeout_s
        self._thread = LoopThread("chroma")
        self._session: aiohttp.ClientSession | None = None

    def collection(self, name: str) -> Collection:
        """Find the collection of this name."""
        return self._collection(self._ask("GET", _in_path(name)))

    def create(self, name: str, hnsw: Mapping[str, str | int], marks: Marks) -> Collection:
        """Make a collection with these parameters of its graph."""
        configured = {"configuration": {"hnsw": hnsw}, "metadata": marks.metadata()}
        return self._collection(self._ask("POST", "", {"name": name, **configured}))

    def delete(self, name: str) -> None:
        """Delete the collection of this name and all its rows."""
        self._ask("DELETE", _in_path(name))

    def mark(self, collection: Collection, marks: Marks) -> None:
        """Replace the collection's marks."""
        self._ask("PUT", collection.id, {"new_metadata": marks.metadata()})

    def count(self, collection: Collection) -> int:
        """Return the number of rows."""
        return int(self._ask("GET", f"{collection.id}/count"))

    def upsert(self, collection: Collection, rows: Mapping[str, Any]) -> None:
        """Store rows, in place of those with the same ids."""
        self._ask("POST", f"{collection.id}/upsert", rows)

    def query(self, collection: Collection, vectors: Vectors, count: int) -> list[list[Found]]:
        """Return the nearest rows of each vector, at most `count`, nearest first."""
        include = ("documents", "metadatas", "distances")
        asked = {"query_embeddings": vectors, "n_results": count, "include": include}
        answer = self._ask("POST", f"{collection.id}/query", asked)
        queries = zip(*(answer[name] for name in ("ids", *include)), strict=True)
        return [
            [
                Found(own_id, contents, metadata or {}, distance)
                for own_id, contents, metadata, distance in zip(*columns, strict=True)
            ]
            for columns in queries
        ]

    def close(self) -> None:
        """Release the connections."""
        self._thread.close(self._close())

    async def _close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _collection(self, told: Any) -> Collection:
        try:
            configured = told["configuration_json"]
            # A cluster has `spann` in place of the graph of a single server.
            space = (configured.get("hnsw") or configured["spann"])["space"]
            own = (told["metadata"] or {}).get(_MARKS)
            marks = None if own is None else Marks(**json.loads(own))
            return Collection(told["id"], told["name"], space, told["dimension"], marks)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._stranger() from None

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        import orjson

        content = None if body is None else orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        url = f"{self._collections}/{path}".rstrip("/")
        status, answered = self._thread.submit(self._http(method, url, content)).result()
        try:
            answer = orjson.loads(answered)
            if 200 <= status < 300:
                return answer
            kind, message = str(answer["error"]), f"status {status}, {answer['message']:.300}"
        except (ValueError, KeyError, TypeError):
            kind, message = "", f"status {status}"
        if status in (408, 429) or status >= 500:
            raise RetrieverUnavailable(f"Chroma's server {self.url} failed ({message})")
        if status in (401, 403):
            raise RetrieverError(
                f"Chroma's server {self.url} refuses access ({message}); set its token in the environment "
                f"variable {TOKEN_VARIABLE}"
            )
        if kind == "NotFoundError":
            raise NoCollection(
                f"Chroma's server {self.url} has no such collection or database ({message}); it may have "
                "been deleted or replaced"
            )
        if not kind and status != 413:
            raise self._stranger()
        raise RetrieverError(f"Chroma's server {self.url} refuses the request ({message})")

    async def _http(self, method: str, url: str, content: bytes | None) -> tuple[int, bytes]:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                headers={"x-chroma-token": self._token} if self._token else {},
                timeout=aiohttp.ClientTimeout(total=self._timeout_s),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        kind = {"content-type": "application/json"}
        try:
            # A redirection would take the token elsewhere.
            async with self._session.request(
                method, url, data=content, headers=kind, allow_redirects=False
            ) as reply:
                return reply.status, await reply.read()
        except TimeoutError:
            raise RetrieverUnavailable(
                f"Chroma's server {self.url} did not answer within {self._timeout_s:.3g} s"
            ) from None
        except aiohttp.ClientResponseError:  # it does not speak HTTP
            raise self._stranger() from None
        except (aiohttp.ClientError, OSError) as error:
            raise RetrieverUnavailable(
                f"Chroma's server {self.url} cannot be reached: {error or type(error).__name__}"
            ) from None

    def _stranger(self) -> RetrieverError:
        return RetrieverError(
            f"what answers at {self.url} is no Chroma server with version 2 of the API; name the address "
            "of one, such as `chroma run` starts"
        )


def _in_path(name: str) -> str:
    if not name.strip("."):  # it would lead to another place
        raise SettingsError(f"{name!r} is no name of a collection, a tenant or a database")
    return quote(name, safe="")
