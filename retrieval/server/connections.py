"""Keeps slow, silent and too many clients from holding a server's connections and memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from prompt_coevo.retrieval.wire import write_error

Address: TypeAlias = tuple[str, int]

_TOO_MANY = write_error("too many clients are connected; try again later")
_TOO_MANY_REPLY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(_TOO_MANY), _TOO_MANY)
)


class Connections:
    """All open connections of a server.

    A client has `read_timeout_s` to send the head of a request (the server's endpoints limit the time
    for the body), and as long to take what was sent to it, else `sweep` ends its connection.
    """

    def __init__(self, limit: int, read_timeout_s: float) -> None:
        self._limit = limit
        self._read_timeout_s = read_timeout_s
        self._open: dict[Address, GuardedConnection] = {}

    def __len__(self) -> int:
        return len(self._open)

    def guard(self, protocol: asyncio.Protocol) -> GuardedConnection:
        """The protocol, watched."""
        return GuardedConnection(protocol, self)

    def admit(self, address: Address, connection: GuardedConnection) -> bool:
        """Whether there is room for one more client; every connection is watched in any case."""
        self._open[address] = connection
        return len(self._open) <= self._limit

    def forget(self, address: Address, connection: GuardedConnection) -> None:
        """The connection is closed; its address may have another one by now."""
        if self._open.get(address) is connection:
            del self._open[address]

    def request_began(self, address: Address | None) -> None:
        """The head of a request is there."""
        if address is not None and (connection := self._open.get(address)):
            connection.in_request = True
            connection.reading_since = None

    def request_ended(self, address: Address | None) -> None:
        """The reply was handed over."""
        if address is not None and (connection := self._open.get(address)):
            connection.in_request = False

    def sweep(self, now: float) -> None:
        """End the connections of clients that take too long."""
        for connection in list(self._open.values()):
            since = (connection.reading_since, connection.writing_since)
            if any(start is not None and now - start > self._read_timeout_s for start in since):
                connection.abort()

    async def sweep_for_ever(self) -> None:
        """Sweep a few times per time limit."""
        while True:
            await asyncio.sleep(min(1.0, self._read_timeout_s / 4))
            self.sweep(asyncio.get_running_loop().time())


class GuardedConnection(asyncio.Protocol):
    """Passes everything on to the server's own protocol, and notes since when the client is awaited."""

    def __init__(self, inner: asyncio.Protocol, connections: Connections) -> None:
        self._inner = inner
        self._connections = connections
        self._clock: Callable[[], float] = asyncio.get_running_loop().time
        self._transport: Any = None
        self._address: Address = ("", 0)
        self._admitted = True
        self.in_request = False
        self.reading_since: float | None = None
        self.writing_since: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        peer = transport.get_extra_info("peername")
        if peer is None:  # the client is gone already
            self._admitted = False
            self.abort()
            return
        self._address = peer[:2]
        self.reading_since = self._clock()
        self._admitted = self._connections.admit(self._address, self)
        if self._admitted:
            self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not self._admitted:
            # Only now: a client that is still writing would not see an earlier answer.
            self._transport.write(_TOO_MANY_REPLY)
            self._transport.close()
            return
        if not self.in_request and self.reading_since is None:
            self.reading_since = self._clock()
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._admitted else None

    def pause_writing(self) -> None:
        self.writing_since = self._clock()
        if self._admitted:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        self.writing_since = None
        if self._admitted:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.forget(self._address, self)
        if self._admitted:
            self._inner.connection_lost(exc)

    def abort(self) -> None:
        """Close without waiting for the client."""
        self._transport.abort()
