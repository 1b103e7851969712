"""The retrieval server as an ASGI application: Search-R1's `/retrieve`, and `/health` and `/metrics`.

Requests that arrive while a search is running become the next batch. A problem with one query is reported
beside the hits of the others (`prompt_coevo.retrieval.wire`). Every other error is a JSON object
`{"error": sentence}`:

====  ==================================================================================
400   the body is not JSON
401   the server's token is missing or wrong
403   a page in a browser sent the request and is not allowed to
408   the client took too long to send its request
413   the body is too large
421   the request is for another host
422   the request does not fit the format, has too many queries, or `topk` is too large
500   the search failed for all queries
503   not ready yet, or too many queries wait; Retry-After says when to ask again
504   the search did not finish in time
====  ==================================================================================
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from prompt_coevo.retrieval.server.entrance import Entrance
from prompt_coevo.retrieval.server.errors import Refusal
from prompt_coevo.retrieval.server.service import RetrievalService, answer
from prompt_coevo.retrieval.wire import write_error

_PATHS = ("/retrieve", "/health", "/metrics")


class RetrievalApp:
    """Passes requests to the service; calls `failed` if the index cannot be searched at all."""

    def __init__(
        self,
        service: RetrievalService,
        entrance: Entrance,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        self._service = service
        self._entrance = entrance
        self._failed = failed
        self._inside: ASGIApp = self._answer
        if service.settings.allowed_origins:
            self._inside = CORSMiddleware(
                self._answer,
                allow_origins=service.settings.allowed_origins,
                allow_methods=["GET", "POST"],
                allow_headers=["authorization", "content-type"],
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        try:
            self._entrance.check_sender(Headers(scope=scope))
        except Refusal as error:
            await self._service.turn_away(error)(scope, receive, send)
        else:
            await self._inside(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        warming_up = asyncio.create_task(self._warm_up())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        warming_up.cancel()
        self._service.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _warm_up(self) -> None:
        try:
            await self._service.warm_up()
        except Exception as error:
            self._service.failure = error
            self._failed()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answered(Request(scope, receive))
        await response(scope, receive, send)

    async def _answered(self, request: Request) -> Response:
        try:
            self._entrance.check_token(request.headers)
        except Refusal as error:
            return self._service.turn_away(error)
        match request.method, request.scope["path"]:
            case "POST", "/retrieve":
                return await self._service.retrieve(request)
            case "GET" | "HEAD", "/health":
                return self._service.health()
            case "GET" | "HEAD", "/metrics":
                return self._service.show_metrics()
            case method, path:
                status, why = (405, "Method Not Allowed") if path in _PATHS else (404, "Not Found")
                return answer(write_error(f"{method} {path}: {why}; ask by POST /retrieve"), status)
