"""Check the retriever `chroma` with Chroma's real server; tests/retrieval/laws has its laws."""

from __future__ import annotations

import logging
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.chroma_server import COUNT, ROWS, ChromaProcess, write_rows
from helpers.passages import queries
from helpers.retrieval_server import EchoRetriever, free_port, serving
from helpers.scripted_http import Reply, scripted
from helpers.tiny_encoder import save_tiny_encoder
from prompt_coevo.errors import SettingsError
from prompt_coevo.retrieval.agent.settings import SearchAgentSettings, tool_of
from prompt_coevo.retrieval.chroma.push import push
from prompt_coevo.retrieval.chroma.retriever import Chroma
from prompt_coevo.retrieval.client.client import RemoteRetriever
from prompt_coevo.retrieval.dense.encoders import load
from prompt_coevo.retrieval.errors import RetrieverError, RetrieverUnavailable
from prompt_coevo.retrieval.index.build import Request, build
from prompt_coevo.retrieval.index.open import open_index
from prompt_coevo.retrieval.named import open_retriever
from prompt_coevo.retrieval.retriever import Hit

QUERIES = [query for query, _ in queries(300, of=COUNT)]


@pytest.fixture(scope="module")
def wiki(chroma: ChromaProcess, index: Path) -> str:
    """Return the name of a pushed collection."""
    return push(index, chroma.address, "wiki").collection


@pytest.fixture
def retriever(chroma: ChromaProcess, wiki: str) -> Iterator[Chroma]:
    opened = open_retriever("chroma", {"url": chroma.address, "collection": wiki})
    assert isinstance(opened, Chroma)
    yield opened
    opened.close()


def refusal(options: dict[str, Any]) -> str:
    """Return the sentence with which the options are refused before a search."""
    with pytest.raises((RetrieverError, SettingsError)) as error:
        open_retriever("chroma", options)
    text = str(error.value)
    assert "\n" not in text
    assert len(text) < 500
    return text


def names(found: Sequence[Sequence[Hit]]) -> list[list[str]]:
    return [[hit.id for hit in hits] for hits in found]


def test_it_finds_what_the_index_finds(retriever: Chroma, index: Path) -> None:
    """More queries than go into one request, with all fields, and the same through our server."""
    opened = open_index(index)
    assert len(QUERIES) > 256
    expected, found = opened.search(QUERIES, 3), retriever.search(QUERIES, 3)
    opened.close()
    shared = 0
    for mine, theirs in zip(found, expected, strict=True):
        exact = {hit.id: hit for hit in theirs}
        for hit in mine:
            if hit.id in exact:  # the graph may miss one
                shared += 1
                assert hit.fields == exact[hit.id].fields
                assert hit.score == pytest.approx(exact[hit.id].score, abs=1e-5)
    assert shared >= 0.95 * 3 * len(QUERIES)
    info = retriever.info()
    assert (info.kind, info.passages) == ("chroma", COUNT)
    with serving(retriever) as address:
        remote = RemoteRetriever(address, total_timeout_s=3600.0)
        assert names(remote.search(QUERIES, 3)) == names(found)
        assert remote.info() == info
        remote.close()


def test_a_search_agent_has_it_by_its_settings(chroma: ChromaProcess, wiki: str) -> None:
    options = {"url": chroma.address, "collection": wiki}
    tool = tool_of(SearchAgentSettings(retriever="chroma", retriever_options=options))
    (hits,) = tool.search([ROWS[3]["contents"].replace("\n", " ")])
    assert isinstance(hits, list)
    assert {"id": hits[0].id, "contents": hits[0].contents, **hits[0].fields} == ROWS[3]


def test_many_equal_passages_come_in_the_order_of_the_corpus(
    chroma: ChromaProcess, encoder: str, tmp_path: Path
) -> None:
    text = ROWS[0]["contents"]
    rows = [{"id": f"{99 - number}", "contents": text} for number in range(60)]
    corpus = write_rows(tmp_path / "corpus.jsonl", [*rows, ROWS[1]])
    build(corpus, tmp_path / "equal", Request("dense", encoder, "Flat"))
    push(tmp_path / "equal", chroma.address)
    retriever = Chroma(chroma.address, "equal")
    for k in (1, 7, 60):
        (hits,) = retriever.search([text.replace("\n", " ")], k)
        assert [hit.id for hit in hits] == [row["id"] for row in rows[:k]]
    retriever.close()


def test_a_collection_of_others(chroma: ChromaProcess, encoder: str) -> None:
    """Its metadata are the fields. Cosine will do, as these vectors have length 1."""
    vectors = load(encoder).encode_passages([row["contents"] for row in ROWS[:50]])
    documents = [row["contents"] for row in ROWS[:50]]
    metadata = [{"row": f"x{number}", "fields": number} for number in range(50)]
    chroma.make("others", 3 * vectors, "cosine", documents=documents, metadatas=metadata)
    place = {"url": chroma.address, "collection": "others"}
    assert "does not name its encoder; set the option encoder" in refusal(place)
    retriever = open_retriever("chroma", {**place, "encoder": encoder})
    found = retriever.search([one.replace("\n", " ") for one in documents], 1)
    for number, (hit,) in enumerate(found):
        assert hit == Hit(f"own {number}", documents[number], hit.score, 1, metadata[number])
    before = retriever.info()
    chroma.add("others", np.ones((51, 128)), documents=["more"] * 51)
    after = retriever.info()
    assert (before.passages, after.passages) == (50, 51)
    assert before.fingerprint != after.fingerprint
    retriever.close()
    chroma.make("silent", vectors)
    retriever = open_retriever("chroma", {**place, "collection": "silent", "encoder": encoder})
    with pytest.raises(RetrieverError, match="no text under 'contents'"):
        retriever.search(["x"], 1)
    retriever.close()


def test_the_fingerprint_is_that_of_the_index(
    retriever: Chroma, chroma: ChromaProcess, index: Path, encoder: str, tmp_path: Path
) -> None:
    """A copy has the same one; with another text in one row it is another."""
    push(index, chroma.address, "copy")
    corpus = write_rows(tmp_path / "corpus.jsonl", [{**ROWS[0], "year": "new"}, *ROWS[1:]])
    build(corpus, tmp_path / "newer", Request("dense", encoder, "Flat"))
    push(tmp_path / "newer", chroma.address)
    copy, newer = Chroma(chroma.address, "copy"), Chroma(chroma.address, "newer")
    own = retriever.info().fingerprint
    assert copy.info().fingerprint == own
    assert newer.info().fingerprint != own
    copy.close()
    newer.close()


def test_collections_that_cannot_be_searched(
    chroma: ChromaProcess, wiki: str, encoder: str, tmp_path: Path
) -> None:
    smaller = f"e5:{save_tiny_encoder(tmp_path / 'smaller', ['a'], dimension=64)}"
    other = f"e5:{save_tiny_encoder(tmp_path / 'other', ['a'], seed=1)}"
    chroma.make("nothing")
    chroma.make("far", np.eye(128), "l2", documents=["x"] * 128)
    chroma.make("turned", np.eye(128), "cosine", documents=["x"] * 128)
    cases = [
        ("gone", None, "'gone' on .* does not exist; fill it by `prompt-coevo retrieval push`"),
        ("nothing", encoder, "is empty"),
        (wiki, smaller, "has vectors of 128 numbers, but the encoder .* makes 64"),
        (wiki, other, "was filled with the encoder .*, but .* is another one now"),
        (wiki, encoder.replace("e5:", "mean:"), "is another one now"),
        ("far", encoder, "compares by 'l2', but .* needs 'ip' or 'cosine'"),
    ]
    for name, chosen, problem in cases:
        options = {"url": chroma.address, "collection": name, "encoder": chosen}
        assert re.search(problem, refusal(options)), name
    (tmp_path / "long").mkdir()
    checkpoint = save_tiny_encoder(tmp_path / "long" / "own", ["a"])
    (checkpoint / "modules.json").write_text(
        '[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},'
        '{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]'
    )
    (checkpoint / "1_Pooling").mkdir()
    (checkpoint / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    options = {"url": chroma.address, "collection": "turned", "encoder": str(checkpoint)}
    assert "compares by 'cosine'" in refusal(options), "vectors of any length need the product"


def test_a_server_that_is_down_is_asked_again(chroma: ChromaProcess, wiki: str) -> None:
    """It may be opened during an outage; what cannot be searched is refused when the server is back."""
    place = {"url": chroma.address, "collection": wiki}
    chroma.kill()
    waiting, wrong = Chroma(**place), Chroma(chroma.address, "gone")
    for ask in (waiting.info, lambda: waiting.search(["x"], 1)):
        with pytest.raises(RetrieverUnavailable, match="cannot be reached") as error:
            ask()
        assert chroma.address in str(error.value)
    chroma.start()
    assert waiting.info().passages == COUNT
    with pytest.raises(RetrieverError, match="does not exist"):
        wrong.search(["x"], 1)
    waiting.close()
    wrong.close()


def test_a_collection_that_is_deleted_meanwhile_is_an_outage(
    chroma: ChromaProcess, index: Path
) -> None:
    """An index that replaces it is not taken for the old one."""
    push(index, chroma.address, "brief")
    retriever = Chroma(chroma.address, "brief")
    retriever.search(["x"], 1)
    push(index, chroma.address, "brief", force=True)
    with pytest.raises(RetrieverUnavailable, match="may have been deleted or replaced"):
        retriever.search(["x"], 1)
    with pytest.raises(RetrieverUnavailable, match="may have been deleted or replaced"):
        retriever.info()
    retriever.close()


def test_places_that_are_no_chroma_server(retriever: Chroma) -> None:
    for url in ("localhost:8000", "ftp://a", "http://a/?b", ""):
        assert "is no address of a Chroma server" in refusal({"url": url, "collection": "wiki"})
    hidden = refusal({"url": "http://me:pa55w0rd@host:port", "collection": "wiki"})
    assert "//host:port' is no address" in hidden
    assert "pa55w0rd" not in hidden
    elsewhere = {"location": "http://127.0.0.1:1/"}
    collection = b'{"id": "a", "name": "wiki", "metadata": null, "dimension": 3}'
    replies = [
        Reply(b"<html>", 404),
        Reply(b"<html>"),
        Reply(b'{"detail": "Not Found"}', 404),
        Reply(b"[]"),
        Reply(collection),
        Reply(b"", 307, elsewhere),
        Reply(b'{"error": "Unimplemented"}', 410),
    ]
    stranger = "what answers at .* is no Chroma server with version 2 of the API"
    for reply in replies:
        with scripted(lambda path, body, reply=reply: reply) as server:
            told = refusal({"url": server.address, "collection": "wiki"})
            assert re.search(stranger, told), reply
    with serving(EchoRetriever()) as address:
        assert re.search(stranger, refusal({"url": address, "collection": "wiki"}))
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            with listener.accept()[0] as connection:
                connection.sendall(b"SSH-2.0-OpenSSH\r\n")
                connection.recv(1 << 16)

        thread = threading.Thread(target=greet)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert re.search(stranger, refusal({"url": url, "collection": "wiki"}))
        thread.join()


def test_a_server_that_hangs_or_fails_is_an_outage(retriever: Chroma) -> None:
    gate = threading.Event()

    def hang(path: str, body: object) -> Reply:
        gate.wait()
        return Reply()

    with scripted(hang) as server:
        opened = Chroma(server.address, "wiki", timeout_s=0.2)
        with pytest.raises(RetrieverUnavailable, match=r"did not answer within 0\.2 s"):
            opened.search(["x"], 1)
        gate.set()
        opened.close()
    for status in (429, 500, 503):
        failing = Reply(b'{"error": "InternalError", "message": "disk"}', status)
        with scripted(lambda path, body, failing=failing: failing) as server:
            opened = Chroma(server.address, "wiki")
            with pytest.raises(RetrieverUnavailable, match=rf"failed \(status {status}, disk\)"):
                opened.search(["x"], 1)
            opened.close()


def test_the_token_is_sent_and_never_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token, password = "ck-0123456789abcdefghijkl", "pass-9876543210"
    monkeypatch.setenv("CHROMA_API_KEY", f"{token}\n")
    heads: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            with listener.accept()[0] as connection:
                heads.append(connection.recv(1 << 16).decode())
                reply = b'HTTP/1.1 401 X\r\ncontent-length: 35\r\n\r\n{"error": "Auth", "message": "none"}'
                connection.sendall(
                    reply.replace(b"35", str(len(reply.split(b"\r\n\r\n")[1])).encode())
                )

        thread = threading.Thread(target=refuse)
        thread.start()
        url = f"http://me:{password}@127.0.0.1:{listener.getsockname()[1]}"
        told = refusal({"url": url, "collection": "wiki"})
        thread.join()
    assert f"x-chroma-token: {token}\r\n" in heads[0]
    assert "refuses access (status 401, none); set its token in the environment" in told
    unreachable = Chroma(f"http://me:{password}@127.0.0.1:{free_port()}", "wiki")
    with pytest.raises(RetrieverUnavailable) as error:
        unreachable.info()
    unreachable.close()
    shown = f"{told} {error.value} {unreachable!r} {caplog.text}"
    assert token not in shown
    assert password not in shown
