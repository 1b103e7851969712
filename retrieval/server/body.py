"""Reads a request's body, with limits on its size and on the client's time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias, TypedDict

from prompt_coevo.retrieval.server.errors import Refusal


class Message(TypedDict, total=False):
    """A message of ASGI, with the fields that are used here."""

    type: str
    body: bytes
    more_body: bool
    status: int
    headers: list[tuple[bytes, bytes]]


Receive: TypeAlias = Callable[[], Awaitable[Message]]


async def read_body(
    headers: Mapping[bytes, bytes], receive: Receive, *, max_bytes: int, timeout_s: float
) -> bytes:
    """Return the body. Raises Refusal; a body declared too large is not read."""
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length) > max_bytes:
        raise _too_large(max_bytes)
    try:
        async with asyncio.timeout(timeout_s):
            return await _read(receive, max_bytes)
    except TimeoutError:
        raise Refusal(408, f"the request was not complete within {timeout_s:.3g} s") from None


async def _read(receive: Receive, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "the client hung up")
        part = message.get("body", b"")
        size += len(part)
        if size > max_bytes:
            raise _too_large(max_bytes)
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


def _too_large(max_bytes: int) -> Refusal:
    return Refusal(
        413, f"the request is larger than {max_bytes} bytes; ask for fewer queries at once"
    )
