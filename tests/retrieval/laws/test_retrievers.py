"""Check that the built-in retrievers keep the laws: indexes of all kinds, and the client of a server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.chroma_server import ChromaProcess
from helpers.retrieval_server import free_port
from helpers.tiny_encoder import save_tiny_encoder
from prompt_coevo.retrieval.chroma.push import push
from prompt_coevo.retrieval.client.client import RemoteRetriever
from prompt_coevo.retrieval.client.sharded import ShardedRetriever
from prompt_coevo.retrieval.index.build import Request, build
from prompt_coevo.retrieval.index.open import PassageIndex, open_index
from prompt_coevo.retrieval.named import open_retriever
from prompt_coevo.retrieval.server.server import RetrievalServer
from prompt_coevo.retrieval.server.settings import ServerSettings
from prompt_coevo.testing.retriever import PASSAGES, Passages, RetrieverLaws


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("torch")
    texts = [contents for _, contents in PASSAGES]
    return f"e5:{save_tiny_encoder(tmp_path_factory.mktemp('encoder'), texts)}"


class Index(RetrieverLaws):
    """Build an index once for the laws of a class."""

    kind: str
    index = Request.index
    shards = 1
    folder: Path
    encoder = Request.encoder

    @pytest.fixture(autouse=True, scope="class")
    @staticmethod
    def folder_of_the_class(request: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
        request.cls.folder = tmp_path_factory.mktemp("index")
        if request.cls.kind != "bm25":
            request.cls.encoder = request.getfixturevalue("encoder")

    def opened(self, passages: Passages, shard: int | None = None) -> PassageIndex:
        folder = self.folder / str(len(passages))
        if not folder.exists():
            corpus = self.folder / f"{len(passages)}.jsonl"
            rows = ({"id": name, "contents": contents} for name, contents in passages)
            corpus.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
            shards = min(self.shards, len(passages))
            build(corpus, folder, Request(self.kind, self.encoder, self.index, shards=shards))
        return open_index(folder, shard=shard)

    @contextmanager
    def retriever(self, passages: Passages) -> Iterator[Any]:
        index = self.opened(passages)
        yield index
        index.close()


class TestBm25(Index):
    kind = "bm25"


class TestBm25InShards(Index):
    kind = "bm25"
    shards = 4


class TestDense(Index):
    kind = "dense"
    index = "Flat"


class TestDenseInShards(Index):
    kind = "dense"
    index = "SQfp16"
    shards = 3


class TestHybrid(Index):
    kind = "hybrid"
    index = "Flat"


class TestHybridOfRetrievers(Index):
    """Check the documented hybrid retriever over two indexes."""

    kind = "bm25"

    @contextmanager
    def retriever(self, passages: Passages) -> Iterator[Any]:
        both = open_retriever("hybrid_retriever:Hybrid", {"retrievers": []})
        both.retrievers = [self.opened(passages), self.opened(passages)]  # type: ignore[attr-defined]
        yield both
        both.close()


class TestChroma(Index):
    """Check a pushed index on Chroma's real server; an outage kills the server."""

    kind = "dense"
    index = "Flat"
    may_be_down = True

    @pytest.fixture(autouse=True, scope="class")
    @staticmethod
    def server_of_the_class(
        request: Any, folder_of_the_class: None, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[None]:
        with ChromaProcess(tmp_path_factory.mktemp("chroma")) as request.cls.server:
            yield

    server: ChromaProcess

    @contextmanager
    def retriever(self, passages: Passages) -> Iterator[Any]:
        self.opened(passages).close()
        name = f"passages-{len(passages)}"
        push(self.folder / str(len(passages)), self.server.address, name)
        retriever = open_retriever("chroma", {"url": self.server.address, "collection": name})
        yield retriever
        retriever.close()

    @contextmanager
    def outage(self, retriever: Any) -> Iterator[None]:
        self.server.kill()
        yield
        self.server.start()


class TestRemote(Index):
    """Check the client with a real server and index; an outage stops the server."""

    kind = "bm25"
    may_be_down = True

    @contextmanager
    def retriever(self, passages: Passages) -> Iterator[Any]:
        self.serving = Serving(self, passages)
        self.serving.start()
        remote = RemoteRetriever(self.serving.address, total_timeout_s=1.0)
        yield remote
        remote.close()
        self.serving.stop()

    @contextmanager
    def outage(self, retriever: Any) -> Iterator[None]:
        self.serving.stop()
        yield
        self.serving.start()


class TestRemoteWithoutCache(TestRemote):
    """Send every query to the server, one per request."""

    @contextmanager
    def retriever(self, passages: Passages) -> Iterator[Any]:
        self.serving = Serving(self, passages)
        self.serving.start()
        options = {"total_timeout_s": 1.0, "cache_size": 0, "max_batch": 1}
        remote = RemoteRetriever(self.serving.address, **options)
        yield remote
        remote.close()
        self.serving.stop()


class TestShardsOnServers(Index):
    """Check the merging of two shards' servers; an outage stops one of them."""

    kind = "bm25"
    shards = 2
    may_be_down = True

    @contextmanager
    def retriever(self, passages: Passages) -> Iterator[Any]:
        self.opened(passages).close()
        count = min(self.shards, len(passages))
        self.servings = [Serving(self, passages, shard) for shard in range(1, count + 1)]
        for serving in self.servings:
            serving.start()
        sharded = ShardedRetriever([one.address for one in self.servings], total_timeout_s=1.0)
        sharded.info()
        yield sharded
        sharded.close()
        for serving in self.servings:
            serving.stop()

    @contextmanager
    def outage(self, retriever: Any) -> Iterator[None]:
        self.servings[-1].stop()
        yield
        self.servings[-1].start()


class Serving:
    """A server that can be stopped and started at the same address."""

    def __init__(self, laws: Index, passages: Passages, shard: int | None = None) -> None:
        self.address = f"http://127.0.0.1:{free_port()}"
        self._laws = laws
        self._passages = passages
        self._shard = shard

    def start(self) -> None:
        port = int(self.address.rpartition(":")[2])
        index = self._laws.opened(self._passages, self._shard)
        self._server = RetrievalServer(index, ServerSettings(port=port))
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        warm = RemoteRetriever(self.address, total_timeout_s=60)
        warm.info()
        warm.close()

    def stop(self) -> None:
        self._server.stop()
        self._thread.join()


@pytest.mark.usefixtures("strangers")
class TestTheDocumentedOne(RetrieverLaws):
    """Check the `Words` of docs/search-agent.md; its passages have their rows as ids."""

    @contextmanager
    def retriever(self, passages: Passages) -> Iterator[Any]:
        from words import Words

        ids = [name for name, _ in passages]

        class WithIds(Words):
            def search(self, queries: Any, k: Any) -> Any:
                found = super().search(queries, k)
                return [[replace(hit, id=ids[int(hit.id)]) for hit in hits] for hits in found]

        yield WithIds([contents for _, contents in passages])
