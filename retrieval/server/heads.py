"""Uvicorn's protocol with limits on the head of a request, of which it has none with httptools."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from prompt_coevo.retrieval.wire import write_error

# What comes at once is parsed in pieces, so that no more than one goes by uncounted.
_PIECE = 16 * 1024


class _HeadTooLarge(Exception):
    """Stops the parser."""


class LimitedHeads(HttpToolsProtocol):
    """Answers 431 to a head with more bytes or headers than allowed, and closes the connection.

    Trailers are headers, too. Two things are counted: what the parser has read of this request's address
    and headers, and what it was given since it last got anywhere, which it may be holding on to.
    """

    def __init__(self, max_bytes: int, max_headers: int, **state: Any) -> None:
        super().__init__(**state)
        self._max_bytes = max_bytes
        self._max_headers = max_headers
        self._bytes = self._headers = self._held = 0
        self._got_somewhere = False

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), _PIECE):
            if self.transport.is_closing():
                return
            piece = data[start : start + _PIECE]
            self._got_somewhere = False
            super().data_received(piece)
            self._held = 0 if self._got_somewhere else self._held + len(piece)
            if self._held > self._max_bytes and not self.transport.is_closing():
                self._refuse()

    def send_400_response(self, msg: str) -> None:
        """What uvicorn does when the parser stops."""
        if self._is_too_large():
            self._refuse()
        else:
            super().send_400_response(msg)

    def on_message_begin(self) -> None:
        self._bytes = self._headers = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers += 1
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._got_somewhere = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._got_somewhere = True
        super().on_body(body)

    def on_chunk_complete(self) -> None:
        self._got_somewhere = True

    def on_message_complete(self) -> None:
        self._got_somewhere = True
        super().on_message_complete()

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._is_too_large():
            raise _HeadTooLarge

    def _is_too_large(self) -> bool:
        return self._bytes > self._max_bytes or self._headers > self._max_headers

    def _refuse(self) -> None:
        body = write_error(
            f"the head of a request may have {self._max_bytes} bytes and {self._max_headers} headers"
        )
        self.transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
            b"connection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        )
        self.transport.close()
