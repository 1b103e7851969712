"""Bound what a server can take of this process with one call: bytes, time, redirects."""

from __future__ import annotations

import socket
import zlib
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

_MOST_REDIRECTS = 3
# An answer is JSON: a token is about 4 bytes of English and up to 18 of escaped Chinese, and a server may
# send what it reasoned under two or three names. Beside it may stand the prompt, once more or as numbers.
# A text of a megabyte is still better named by the gate on a candidate's length.
_BYTES_PER_TOKEN = 64
_BESIDE_TOKENS = 1_000_000
_NO_SECRETS = {"accept", "connection", "content-length", "content-type", "host", "user-agent"}
_NO_SECRETS |= {"x-stainless-raw-response"}  # OpenAI's client looks it up when the answer is there


class EndpointFaultError(Exception):
    """A server's answer that no call takes, and that it would give again."""

    def __init__(self, fault: str, *, answered: bool) -> None:
        super().__init__(fault)
        self.answered = answered
        """Whether there may be an answer, which is paid for."""


class BoundedEndpoint:
    """The transport of an HTTP client that makes one call, over the client that would have made it.

    Answers are read here, to their end or to the limit. `cut` ends whatever the server still does: the
    thread that reads has an error then, and closes the connection.
    """

    inner: httpx.Client
    """Given before the first request. Whoever made it closes it."""

    def __init__(self, server: str, most_tokens: int) -> None:
        self._server = server
        self._tokens = most_tokens
        self._limit = self._left = _BESIDE_TOKENS + _BYTES_PER_TOKEN * most_tokens
        self._redirects = 0
        self._first: httpx.URL | None = None
        self._sockets: list[socket.socket] = []
        self._over = False
        self.fault: EndpointFaultError | None = None
        """Kept here, for what lies between a transport and its caller tells only that something failed."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request and read the whole answer."""
        import httpx

        if self.fault is not None:
            raise self.fault
        request.extensions["trace"] = self._watch
        self._keep_secrets_at_home(request)
        request.headers["Accept-Encoding"] = "identity"
        with closing(self.inner.send(request, stream=True, follow_redirects=False)) as response:
            self._redirects += response.has_redirect_location
            if self._redirects > _MOST_REDIRECTS:
                self._fail(
                    f"redirected the call more than {_MOST_REDIRECTS} times; have reflection.api_base name "
                    "the server that answers",
                    answered=False,
                )
            body, headers = self._body(response), response.headers
        for name in ("Content-Encoding", "Content-Length", "Transfer-Encoding"):
            headers.pop(name, None)
        return httpx.Response(response.status_code, headers=headers, content=body)

    def close(self) -> None:
        """Do nothing: a transport has this."""

    def cut(self) -> None:
        """Close the call's connections from another thread, also while one waits for a byte."""
        self._over = True
        for one in list(self._sockets):
            with suppress(OSError, ValueError):
                one.shutdown(socket.SHUT_RDWR)

    def _watch(self, event: str, info: dict[str, Any]) -> None:
        """Note each connection that is made for this call: plain, then encrypted."""
        made = getattr(info.get("return_value"), "get_extra_info", None)
        if made is not None and (found := made("socket")) is not None:
            self._sockets.append(found)
            if self._over:
                self.cut()

    def _keep_secrets_at_home(self, request: httpx.Request) -> None:
        """Send no key where a redirect leads elsewhere. httpx knows one of the headers that hold keys."""
        self._first = first = self._first or request.url
        elsewhere = (first.host, first.port) != (request.url.host, request.url.port)
        if elsewhere or (first.scheme, request.url.scheme) == ("https", "http"):
            for name in set(request.headers) - _NO_SECRETS:
                del request.headers[name]

    def _body(self, response: httpx.Response) -> bytes:
        body, packed = bytearray(), response.headers.get("Content-Encoding", "identity")
        if response.is_stream_consumed:  # by a client of the user's that asks no server
            return bytes(response.content)
        if packed not in ("identity", "gzip", "deflate"):
            self._fail(f"packed its answer with {packed!r}, which was not asked for", answered=True)
        unpacker = None if packed == "identity" else zlib.decompressobj(zlib.MAX_WBITS | 32)
        for piece in response.iter_raw():
            self._count(len(piece))
            if unpacker is not None:
                piece = unpacker.decompress(piece, self._left + 1)
                self._count(len(piece))
            body += piece
        return bytes(body)

    def _count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            self._fail(
                f"answered with more than {self._limit} bytes, which no answer of {self._tokens} tokens "
                "(reflection.max_tokens) needs; the rest was not read",
                answered=True,
            )

    def _fail(self, what: str, *, answered: bool) -> None:
        self.fault = EndpointFaultError(f"{self._server} {what}", answered=answered)
        raise self.fault
