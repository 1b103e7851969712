"""Check third-party backends by name: the examples of docs/examples, and their possible faults."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from helpers.passages import passages, queries, write_corpus
from helpers.retrieval_server import EchoRetriever, echo, free_port, serving
from helpers.tiny_encoder import save_tiny_encoder
from prompt_coevo.retrieval.agent.settings import SearchAgentSettings, tool_of
from prompt_coevo.retrieval.agent.tool import SearchTool
from prompt_coevo.retrieval.client.client import RemoteRetriever
from prompt_coevo.retrieval.errors import QueryError, RetrieverError, RetrieverUnavailable
from prompt_coevo.retrieval.index.build import build
from prompt_coevo.retrieval.named import open_retriever
from prompt_coevo.retrieval.outcomes import Outage, PartialHits, Refused
from prompt_coevo.retrieval.retriever import Hit, IndexInfo, Retriever, ranked
from prompt_coevo.retrieval.server.settings import ServerSettings

COUNT = 60
HYBRID = "hybrid_retriever:Hybrid"
ROWS = [{**row, "title": row["contents"].split("\n")[0].strip('"')} for row in passages(COUNT)]
TEXTS = {row["id"]: row["contents"] for row in ROWS}


def check_rows(retriever: Retriever, right: float) -> None:
    """Check that whole rows are found, the right ones for this share of questions, and the same through a
    server."""
    asked = queries(30, of=COUNT)
    found = retriever.search([query for query, _ in asked], 3)
    for hits in found:
        assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
        for hit in hits:
            assert hit.contents == TEXTS[hit.id]
            assert hit.fields["title"] == hit.contents.split("\n")[0].strip('"')
    hit_at_3 = [
        any(hit.id == own for hit in hits) for (_, own), hits in zip(asked, found, strict=True)
    ]
    assert sum(hit_at_3) >= right * len(asked)
    assert retriever.info().passages == COUNT
    assert retriever.info().fingerprint
    with serving(retriever) as address:
        remote = RemoteRetriever(address, total_timeout_s=3600.0)
        assert remote.search([query for query, _ in asked], 3) == found
        remote.close()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("torch")
    return f"e5:{save_tiny_encoder(tmp_path_factory.mktemp('encoder'), TEXTS.values())}"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    build(corpus, folder / "made")
    return folder / "made"


def test_a_qdrant_collection(encoder: str, index: Path, tmp_path: Path) -> None:
    qdrant = pytest.importorskip("qdrant_client")
    from prompt_coevo.retrieval.dense.encoders import load

    folder = str(tmp_path / "qdrant")
    client = qdrant.QdrantClient(path=folder)
    vectors = load(encoder).encode_passages(list(TEXTS.values()))
    size, metric = vectors.shape[1], qdrant.models.Distance.DOT
    config = qdrant.models.VectorParams(size=size, distance=metric)
    client.create_collection("wiki", vectors_config=config)
    points = [
        qdrant.models.PointStruct(id=number, vector=vector, payload=row)
        for number, (vector, row) in enumerate(zip(vectors.tolist(), ROWS, strict=True))
    ]
    client.upsert("wiki", points)
    client.close()

    options = {"collection": "wiki", "encoder": encoder, "path": folder}
    retriever = open_retriever("qdrant_retriever:Qdrant", options)
    check_rows(retriever, right=0.6)
    retriever.close()
    both = open_retriever(
        HYBRID,
        {
            "retrievers": [
                {"name": "qdrant_retriever:Qdrant", "options": options},
                {"name": "index", "options": {"folder": str(index)}},
            ]
        },
    )
    check_rows(both, right=0.9)
    assert both.info().details["retrievers"] == ["qdrant", "bm25"]
    both.close()


def test_a_qdrant_that_is_down_is_an_outage(encoder: str) -> None:
    pytest.importorskip("qdrant_client")
    where = {"url": f"http://127.0.0.1:{free_port()}", "check_compatibility": False}
    retriever = open_retriever(
        "qdrant_retriever:Qdrant", {"collection": "wiki", "encoder": encoder, **where}
    )
    with pytest.raises(RetrieverUnavailable, match="Qdrant: "):
        retriever.search(["a"], 1)
    retriever.close()


def test_a_lancedb_table(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    from lancedb_retriever import write

    write(str(tmp_path), "passages", ROWS)
    options = {"uri": str(tmp_path), "table": "passages"}
    settings = {"retriever": "lancedb_retriever:Table", "retriever_options": options}
    (query, own), *_ = queries(3, of=COUNT)
    (hits,) = tool_of(SearchAgentSettings(**settings)).search([query])
    assert isinstance(hits, list)
    assert own in {hit.id for hit in hits}
    check_rows(open_retriever("lancedb_retriever:Table", options), right=0.9)


@contextmanager
def web() -> Iterator[str]:
    """Serve a search service with what `echo` knows; some words trigger faults."""
    gate = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = parse_qs(urlsplit(self.path).query)
            (query,), (count,) = asked["q"], asked["n"]
            if query == "hang":
                gate.wait()
            results: Any = [
                {"url": hit.id, "title": query, "snippet": f"Passage {hit.rank}."}
                for hit in echo(query, int(count))
            ]
            if query == "shape":
                results = [{"link": "x"}]
            self.send_response({"long": 414, "busy": 503}.get(query, 200))
            self.end_headers()
            html = b"<html>" if query == "html" else None
            self.wfile.write(html or json.dumps({"results": results}).encode())

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/api"
    finally:
        gate.set()
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_web_search() -> None:
    with web() as url:
        settings = {
            "retriever": "web_search_retriever:WebSearch",
            "retriever_options": {"url": url},
        }
        tool = tool_of(SearchAgentSettings(k=2, on_outage="observe", **settings))
        found = tool.search(["Moby-Dick & Ahab", "ü"])
        told = [
            [(hit.id, hit.contents, hit.score, hit.rank, hit.fields) for hit in hits]
            for hits in found
            if isinstance(hits, list)
        ]
        assert told == [
            [(hit.id, hit.contents, hit.score, hit.rank, {"url": hit.id}) for hit in echo(query, 2)]
            for query in ("Moby-Dick & Ahab", "ü")
        ]
        refused, busy, html, shape = (
            tool.search([query])[0] for query in ("long", "busy", "html", "shape")
        )
        assert refused == Refused("the web search refused it: 414")
        assert busy == Outage("the web search answered 503")
        for outage in (html, shape):
            assert isinstance(outage, Outage)
            assert "the web search gave no answer" in outage.reason
        options = {"url": url, "timeout_s": 0.2}
        hanging = open_retriever("web_search_retriever:WebSearch", options)
        with pytest.raises(RetrieverUnavailable, match="gave no answer"):
            hanging.search(["hang"], 1)
        hanging.close()


class Ranking(EchoRetriever):
    """Return always these ids, in this order."""

    def __init__(self, ids: str, fingerprint: str = "x") -> None:
        super().__init__(fingerprint)
        self.ids = ids

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        super().search(queries, k)
        hits = [Hit(one, f"text {one}", 9.0, n) for n, one in enumerate(self.ids[:k], 1)]
        return [list(hits) for _ in queries]


@pytest.fixture
def pair(offer: Any) -> tuple[Ranking, Ranking]:
    one, two = Ranking("abc", "one"), Ranking("cbd", "two")
    offer("retrievers", "one", lambda: one)
    offer("retrievers", "two", lambda: two)
    return one, two


BOTH = {"retrievers": [{"name": "one"}, {"name": "two", "options": {}}]}


def test_what_one_has_in_part_is_partial(offer: Any, pair: tuple[Ranking, Ranking]) -> None:
    class InPart(Ranking):
        def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
            return [PartialHits(hits, "a shard is missing") for hits in super().search(queries, k)]

    offer("retrievers", "part", lambda: InPart("cbd"))
    hybrid = open_retriever(HYBRID, {"retrievers": [{"name": "one"}, {"name": "part"}]})
    with serving(hybrid) as address:
        remote = RemoteRetriever(address, total_timeout_s=3600.0)
        (hits,) = remote.search(["q"], 3)
        assert isinstance(hits, PartialHits)
        assert hits.reason == "a shard is missing"
        assert [hit.id for hit in hits] == ["c", "b", "a"]
        remote.close()
    hybrid.close()


def test_any_two_are_one_by_their_ranks(pair: tuple[Ranking, Ranking]) -> None:
    hybrid = open_retriever(HYBRID, BOTH)
    (hits,) = hybrid.search(["q"], 9)
    assert "".join(hit.id for hit in hits) == "cbad"
    assert [hit.rank for hit in hits] == [1, 2, 3, 4]
    assert [hit.score for hit in hits] == pytest.approx(
        [1 / 63 + 1 / 61, 1 / 62 + 1 / 62, 1 / 61, 1 / 63]
    )
    assert "".join(hit.id for hit in hybrid.search(["q"], 2)[0]) == "cb"
    assert hybrid.search([], 3) == []
    hybrid.close()
    assert pair[0].closed
    assert pair[1].closed


def test_the_fingerprint_of_a_hybrid_is_of_all(pair: tuple[Ranking, Ranking]) -> None:
    hybrid = open_retriever(HYBRID, BOTH)
    first = hybrid.info()
    assert first == hybrid.info()
    assert (first.kind, first.passages) == ("hybrid", 1000)
    assert open_retriever(HYBRID, {**BOTH, "depth": 7}).info().fingerprint != first.fingerprint
    pair[1].fingerprint = "other"
    assert hybrid.info().fingerprint != first.fingerprint
    pair[1].fingerprint = ""
    assert hybrid.info().fingerprint == ""


def test_what_happens_to_one_of_a_hybrid_happens_to_it(pair: tuple[Ranking, Ranking]) -> None:
    hybrid = open_retriever(HYBRID, BOTH)
    with pytest.raises(RetrieverUnavailable, match="the disk is gone"):
        hybrid.search(["outage"], 1)
    with pytest.raises(QueryError, match="query 0 is empty"):
        hybrid.search([" "], 1)
    pair[1].search = lambda queries, k: [["text"]]  # type: ignore[method-assign]
    with pytest.raises(RetrieverError, match="Ranking answered a search .* a str among the hits"):
        hybrid.search(["q"], 1)


@pytest.mark.parametrize(
    ("row", "score", "sentence"),
    [
        ({"id": "1", "text": "x"}, 1.0, "has no text under 'contents', but 'id', 'text'; give"),
        ({"contents": None}, 1.0, "has no text under 'contents', but 'contents'"),
        ({}, 1.0, "but nothing; give"),
        (None, 1.0, "but None; give"),
        ("text", 1.0, "but a str; give"),
        ({"contents": "x"}, None, "has None as its score"),
        ({"contents": "x"}, "high", "has 'high' as its score"),
    ],
)
def test_a_backends_rows_of_another_shape_are_one_sentence(
    row: Any, score: Any, sentence: str
) -> None:
    with pytest.raises(RetrieverError, match=sentence) as raised:
        ranked([(row, score)])
    assert "\n" not in str(raised.value)
    assert ranked([({"contents": "x"}, 1)]) == [Hit("", "x", 1.0, 1)]


class Hanging(EchoRetriever):
    """Never return from a search for "hang"."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        if "hang" in queries:
            self.released.wait()
        return super().search(queries, k)


def test_a_backend_that_hangs_is_an_outage_and_the_server_lives_on() -> None:
    retriever = Hanging()
    settings = ServerSettings(deadline_s=0.3, max_search_s=0.4, read_timeout_s=3600)
    with serving(retriever, settings) as address:
        remote = RemoteRetriever(address, total_timeout_s=1.0, cache_size=0)
        tool = SearchTool(remote, k=1, on_outage="observe")
        (outcome,) = tool.search(["hang"])
        assert isinstance(outcome, Outage)
        while (found := tool.search(["a"])[0]) != echo("a", 1):  # a busy machine takes longer
            assert isinstance(found, Outage)
        assert remote.info() == IndexInfo("echo", 1000, "echo-1", {"words": 7})
        remote.close()
        retriever.released.set()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_backend_that_hangs_in_the_process_is_an_outage(asynchronous: bool) -> None:
    retriever = Hanging()
    tool = SearchTool(retriever, k=1, on_outage="observe", max_search_s=0.1)

    def search(query: str) -> Any:
        return asyncio.run(tool.asearch(query)) if asynchronous else tool.search([query])[0]

    outcome = search("hang")
    assert isinstance(outcome, Outage)
    assert "a search hangs: it did not finish within 0.1 s" in outcome.reason
    while (found := search("a")) != echo("a", 1):  # a busy machine takes longer
        assert isinstance(found, Outage)
    retriever.released.set()


def test_damage_between_the_sampled_blocks_is_found_before_serving(tmp_path: Path) -> None:
    """Opening reads only some blocks of a file."""
    corpus = write_corpus(tmp_path / "corpus.jsonl", 3000)
    build(corpus, tmp_path / "index")
    largest = max(
        (path for path in (tmp_path / "index").rglob("*") if path.is_file()),
        key=lambda path: path.stat().st_size,
    )
    assert largest.stat().st_size > 16 * 4096
    with largest.open("r+b") as file:
        file.seek(4096 + 50)
        byte = file.read(1)
        file.seek(4096 + 50)
        file.write(bytes([byte[0] ^ 255]))
    folder = str(tmp_path / "index")
    open_retriever("index", {"folder": folder}).close()
    with pytest.raises(ValueError, match=f"{largest.name} is damaged"):
        open_retriever("index", {"folder": folder, "verify": True})
