"""Check who is admitted: the right host, no foreign page, the token."""

from __future__ import annotations

import contextlib
import hmac
import http.client
import json
import logging
import re
import socket
import struct
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.datastructures import Headers

from helpers.retrieval_server import PATIENT, EchoRetriever, echo, serving
from prompt_coevo.algorithms.all_settings import Settings
from prompt_coevo.errors import SettingsError
from prompt_coevo.retrieval.client.bench import measure_load
from prompt_coevo.retrieval.client.client import RemoteClient, RemoteRetriever
from prompt_coevo.retrieval.errors import RetrieverUnavailable
from prompt_coevo.retrieval.named import open_retriever
from prompt_coevo.retrieval.server import entrance
from prompt_coevo.retrieval.server.server import RetrievalServer
from prompt_coevo.retrieval.server.settings import ServerSettings
from prompt_coevo.settings.sources import read_environment

TOKEN = "a-token-that-nobody-guesses"
VARIABLE = "PROMPT_COEVO_RETRIEVAL_TOKEN"
LOCKED = replace(PATIENT, token=TOKEN)


def ask(
    address: str, headers: dict[str, str], method: str = "POST", path: str = "/retrieve"
) -> tuple[int, Any, http.client.HTTPMessage]:
    """Send one request with the standard library; return status, body and headers."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=3600)
    try:
        connection.request(method, path, b'{"queries": ["a"]}', headers)
        response = connection.getresponse()
        body = response.read()
        return response.status, json.loads(body) if body[:1] == b"{" else body, response.headers
    finally:
        connection.close()


def said(address: str, sent: bytes) -> bytes:
    """Return what the server answers to these bytes until it ends the connection."""
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), timeout=3600) as client:
        received = b""
        with contextlib.suppress(ConnectionError):
            client.sendall(sent)
        with contextlib.suppress(ConnectionError):
            while part := client.recv(65536):
                received += part
    return received


def warmed_up(address: str, headers: dict[str, str] | None = None) -> None:
    while ask(address, headers or {})[0] == 503:
        pass


def test_clients_that_reset_before_they_are_accepted_are_no_tracebacks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They reset before the server accepts, so all are gone when it does."""
    server = RetrievalServer(EchoRetriever(), replace(PATIENT, port=0))
    parts = urlsplit(server.address)
    for _ in range(50):
        client = socket.create_connection((parts.hostname, parts.port))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    thread = threading.Thread(target=server.run)
    with caplog.at_level(logging.WARNING):
        thread.start()
        warmed_up(server.address)
        status, body, _ = ask(server.address, {}, "GET", "/metrics")
        server.stop()
        thread.join()
    assert (status, b"# TYPE" in body) == (200, True)
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:9", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8000", 200),
        ("rebound.example.org", 421),
        ("rebound.example.org:8000", 421),
        ("localhost.example.org", 421),
        ("127.0.0.1.example.org", 421),
        ("10.0.0.1", 421),
        ("", 421),
    ],
)
@pytest.mark.parametrize("path", ["/retrieve", "/health", "/metrics"])
def test_on_loopback_only_this_machine_is_asked_for(host: str, status: int, path: str) -> None:
    method = "POST" if path == "/retrieve" else "GET"
    with serving(EchoRetriever()) as address:
        warmed_up(address)
        got, body, _ = ask(address, {"Host": host}, method, path)
    assert got == status
    if status == 421:
        assert body == {
            "error": f"{host!r} is no name of this server; `retrieval serve --set allowed_hosts=NAME` "
            "would make it one"
        }


def test_two_hosts_are_as_bad_as_the_worse() -> None:
    two = b"POST /retrieve HTTP/1.1\r\nhost: a.org\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    with serving(EchoRetriever()) as address:
        assert said(address, two).startswith(b"HTTP/1.1 4")


def test_other_names_can_be_allowed_and_elsewhere_all_are() -> None:
    with serving(EchoRetriever(), replace(PATIENT, allowed_hosts=("a.org",))) as address:
        warmed_up(address)
        assert ask(address, {"Host": "A.org:80"})[0] == 200
        assert ask(address, {"Host": "b.org"})[0] == 421
    everywhere = replace(PATIENT, host="0.0.0.0")
    with serving(EchoRetriever(), everywhere) as address:
        warmed_up(address)
        assert ask(address, {"Host": "a.org"})[0] == 200
    with serving(EchoRetriever(), replace(everywhere, allowed_hosts=("a.org",))) as address:
        assert ask(address, {"Host": "b.org"})[0] == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("origin", ["https://example.org", "null", "http://localhost:8000"])
def test_no_page_may_ask(host: str, origin: str) -> None:
    retriever = EchoRetriever()
    with serving(retriever, replace(PATIENT, host=host)) as address:
        warmed_up(address)
        before = len(retriever.asked)
        status, body, headers = ask(address, {"Origin": origin, "Host": "localhost"})
        assert status == 403
        assert body == {
            "error": f"a page of {origin!r} may not ask this server; `retrieval serve --set "
            "allowed_origins=ORIGIN` would let it"
        }
        assert "access-control-allow-origin" not in headers
        assert ask(address, {"Origin": origin, "Host": "localhost"}, "OPTIONS")[0] == 403
        assert len(retriever.asked) == before


def test_a_page_that_is_allowed_can_ask_and_read() -> None:
    """Its browser sends a preflight request first, without the token."""
    page = "https://example.org"
    first = {"Origin": page, "Access-Control-Request-Method": "POST"}
    settings = replace(LOCKED, allowed_origins=(page,))
    with serving(EchoRetriever(), settings) as address:
        warmed_up(address, {"Authorization": f"Bearer {TOKEN}"})
        status, _, headers = ask(
            address, {**first, "Access-Control-Request-Headers": "authorization"}, "OPTIONS"
        )
        assert (status, headers["access-control-allow-origin"]) == (200, page)
        status, _, headers = ask(address, {"Origin": page, "Authorization": f"Bearer {TOKEN}"})
        assert (status, headers["access-control-allow-origin"]) == (200, page)
        assert ask(address, {"Origin": page})[0] == 401
        assert ask(address, {"Origin": "https://example.com"})[0] == 403


@pytest.mark.parametrize("path", ["/retrieve", "/health", "/metrics"])
@pytest.mark.parametrize(
    "given", [None, TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer", f"Basic {TOKEN}"]
)
def test_nothing_is_answered_without_the_token(path: str, given: str | None) -> None:
    method = "POST" if path == "/retrieve" else "GET"
    retriever = EchoRetriever()
    with serving(retriever, LOCKED) as address:
        headers = {} if given is None else {"Authorization": given}
        status, body, told = ask(address, headers, method, path)
        assert (status, told["www-authenticate"]) == (401, "Bearer")
        assert body == {"error": "this server asks for a token, which is missing or wrong"}
    assert retriever.asked == []


def test_the_token_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return hmac.compare_digest(one, other)

    monkeypatch.setattr(entrance, "hmac", type("Spied", (), {"compare_digest": compare}))
    right, wrong = f"Bearer {TOKEN}".encode(), "Bearer ü".encode("latin-1")

    def check(*given: bytes) -> None:
        headers = Headers(raw=[(b"authorization", one) for one in given])
        entrance.Entrance(LOCKED, "127.0.0.1").check_token(headers)

    check(right)
    with pytest.raises(entrance.Refusal):
        check(wrong)
    with pytest.raises(entrance.Refusal):
        check(right, right)
    assert compared == [(right, right), (wrong, right)]


def test_clients_send_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(EchoRetriever(), LOCKED) as address:
        warmed_up(address, {"Authorization": f"Bearer {TOKEN}"})
        retrievers = [
            RemoteRetriever(address, token=TOKEN),
            open_retriever("remote", {"url": address, "token": TOKEN}),
        ]
        assert not measure_load(address, ["a"], clients=1, seconds=0.01, token=TOKEN).errors
        monkeypatch.setenv(VARIABLE, TOKEN)
        retrievers.append(RemoteRetriever(address))
        assert not measure_load(address, ["a"], clients=1, seconds=0.01).errors
        for retriever in retrievers:
            assert retriever.search(["a"], 1) == [echo("a", 1)]
            assert retriever.info().kind == "echo"
            retriever.close()


@pytest.mark.parametrize("token", [None, "another-token-of-somebody"])
def test_a_client_without_it_is_told_what_is_missing_and_no_token_is_shown(
    token: str | None, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG), serving(EchoRetriever(), LOCKED) as address:
        remote = RemoteRetriever(address, token=token)
        told = []
        for asked in (lambda: remote.search(["a"], 1), remote.info):
            with pytest.raises(RetrieverUnavailable, match=f"answered 401: .*{VARIABLE}") as error:
                asked()
            told.append(str(error.value))
        remote.close()
        told.append(repr(ask(address, {"Authorization": f"Bearer {TOKEN}"}, "GET", "/metrics")))
    shown = "".join([*told, caplog.text, *capfd.readouterr(), repr(LOCKED)])
    assert TOKEN not in shown
    assert token is None or token not in shown


def test_the_variable_is_the_servers_token_and_no_setting_of_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, TOKEN)
    assert ServerSettings().token == TOKEN
    found: list[str] = []
    assert read_environment(Settings, found) == {}
    assert found == []


@pytest.mark.parametrize(
    "wrong", ["", "short", "with a space in the middle", "line\n" * 5, "ü" * 20]
)
def test_what_cannot_be_a_token_is_refused_and_not_shown(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for made in (
        lambda: ServerSettings(token=wrong),
        lambda: RemoteClient("http://127.0.0.1:1", token=wrong),
    ):
        with pytest.raises(SettingsError, match=r"^token must be at least 16 letters") as error:
            made()
        assert not wrong or wrong not in str(error.value)
    monkeypatch.setenv(VARIABLE, wrong)
    with pytest.raises(SettingsError, match=f"^{VARIABLE} must be at least 16 letters"):
        ServerSettings()


def test_a_token_and_a_password_cannot_both_be_sent() -> None:
    with pytest.raises(SettingsError, match="a request can carry only one") as error:
        RemoteClient("http://user:secret@127.0.0.1:1", token=TOKEN)
    assert "secret" not in str(error.value)


def test_the_documented_promises_have_these_tests() -> None:
    document = Path(__file__).parents[3] / "docs" / "faults.md"
    table = document.read_text("utf-8").split("## The retrieval server\n")[1].split("\n## ")[0]
    named = re.findall(r"`tests/retrieval/server/test_entrance\.py::(test_\w+)`", table)
    assert len(named) >= 9
    assert [name for name in named if not callable(globals().get(name))] == []
