"""Reads a request's body, with limits on its size and on the client's time."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from prompt_coevo.retrieval.server.errors import Refusal


async def read_body(request: Request, *, max_bytes: int, timeout_s: float) -> bytes:
    """Return the body. Raises Refusal; a body declared too large is not read."""
    too_large = Refusal(
        413, f"the request is larger than {max_bytes} bytes; ask for fewer queries at once"
    )
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > max_bytes:
        raise too_large
    size = 0

    async def receive() -> Message:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > max_bytes:
            raise too_large
        return message

    try:
        async with asyncio.timeout(timeout_s):
            body: bytes = await Request(request.scope, receive).body()
            return body
    except TimeoutError:
        raise Refusal(408, f"the request was not complete within {timeout_s:.3g} s") from None
    except ClientDisconnect:
        raise Refusal(400, "the client hung up") from None
