"""The retrieval server as an ASGI application: Search-R1's `/retrieve`, and `/health` and `/metrics`.

Requests that arrive while a search is running become the next batch. What is wrong with a query is told
beside the hits of the others (`prompt_coevo.retrieval.wire`). Every other error is a JSON object
`{"error": sentence}`:

====  ==================================================================================
400   the body is no JSON
401   the server's token is missing or wrong
403   a page in a browser asks, and is not allowed to
408   the client took too long to send its request
413   the body is too large
421   the request asks for another host
422   the request does not fit the format, has too many queries, or `topk` is too large
431   the head of the request is too large
500   the search failed, for all queries
503   not ready yet, or too much is waiting; Retry-After says when to ask again
504   the search was not done in time
====  ==================================================================================
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from prompt_coevo.retrieval.server.entrance import Entrance
from prompt_coevo.retrieval.server.errors import ForeignOrigin, NoToken, WrongHost
from prompt_coevo.retrieval.server.service import Answer, RetrievalService
from prompt_coevo.retrieval.wire import write_error


class RetrievalApp:
    """Brings requests to the service; `failed` is called if the index cannot be searched at all."""

    def __init__(
        self,
        service: RetrievalService,
        entrance: Entrance,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        self._service = service
        self._entrance = entrance
        self._failed = failed
        self._starlette = Starlette(
            routes=[
                Route("/retrieve", self._retrieve, methods=["POST"]),
                Route("/health", self._health),
                Route("/metrics", self._metrics),
            ],
            exception_handlers={HTTPException: _http_error},
            lifespan=self._lifespan,
        )
        self._inside: Any = self._answer
        if service.settings.allowed_origins:
            self._inside = CORSMiddleware(
                self._answer,
                allow_origins=service.settings.allowed_origins,
                allow_methods=["GET", "POST"],
                allow_headers=["authorization", "content-type"],
            )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._starlette(scope, receive, send)
            return
        connections, client = self._service.connections, scope["client"]
        connections.request_began(client)
        try:
            self._entrance.check_sender(scope["headers"])
            await self._inside(scope, receive, send)
        except (WrongHost, ForeignOrigin) as error:
            await _send(self._service.turn_away(error), send)
        finally:
            connections.request_ended(client)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            self._entrance.check_token(scope["headers"])
        except NoToken as error:
            await _send(self._service.turn_away(error), send)
            return
        if scope["path"] == "/retrieve" and scope["method"] == "POST":
            # Past Starlette's routing and responses, which take as long as the rest of a request.
            await _send(await self._service.retrieve(dict(scope["headers"]), receive), send)
        else:
            await self._starlette(scope, receive, send)

    async def _retrieve(self, request: Request) -> Response:
        headers = dict(request.scope["headers"])
        return _response(await self._service.retrieve(headers, request.receive))

    async def _health(self, request: Request) -> Response:
        return _response(self._service.health())

    async def _metrics(self, request: Request) -> Response:
        return _response(self._service.show_metrics())

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(self._warm_up()),
            asyncio.create_task(self._service.connections.sweep_for_ever()),
        ]
        yield
        for task in tasks:
            task.cancel()
        self._service.close()

    async def _warm_up(self) -> None:
        try:
            await self._service.warm_up()
        except Exception as error:
            self._service.failure = error
            self._failed()


async def _send(answer: Answer, send: Any) -> None:
    headers = [*answer.headers, (b"content-length", b"%d" % len(answer.body))]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def _response(answer: Answer) -> Response:
    headers = {name.decode(): value.decode() for name, value in answer.headers}
    return Response(answer.body, answer.status, headers)


async def _http_error(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    detail = getattr(error, "detail", "error")
    message = f"{request.method} {request.url.path}: {detail}; ask by POST /retrieve"
    headers = {"content-type": "application/json", **(getattr(error, "headers", None) or {})}
    return Response(write_error(message), status, headers)
