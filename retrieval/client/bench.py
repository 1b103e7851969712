"""Closed-loop load on a retrieval server: how many queries a second it answers, and how fast.

Every client has a connection of its own and sends one query after the other, as rollouts do.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from prompt_coevo.extras import require
from prompt_coevo.retrieval.access import request_headers
from prompt_coevo.retrieval.client.urls import retrieve_url
from prompt_coevo.retrieval.errors import RetrieverUnavailable
from prompt_coevo.retrieval.wire import read_error, write_request


@dataclass(frozen=True)
class Load:
    """What was measured; `errors` counts the answers that were none by their text."""

    clients: int
    seconds: float
    latencies_s: list[float]
    errors: dict[str, int]

    @property
    def queries_per_s(self) -> float:
        return len(self.latencies_s) / self.seconds

    def latency_s(self, quantile: float) -> float:
        """NaN if nothing was answered."""
        ordered = sorted(self.latencies_s)
        if not ordered:
            return math.nan
        return ordered[min(int(quantile * len(ordered)), len(ordered) - 1)]


def measure_load(
    address: str,
    queries: Sequence[str],
    *,
    clients: int,
    seconds: float,
    k: int = 3,
    token: str | None = None,
) -> Load:
    """Ask for `seconds`, with `clients` clients that share the queries; `token` as with RemoteClient.

    Raises RetrieverUnavailable if no connection can be made, SettingsError for an unusable address or
    token.
    """
    require("aiohttp", extra="retrieval", purpose="measuring a retrieval server")
    url, headers = retrieve_url(address), request_headers(token, [address])
    return asyncio.run(_measure(url, headers, queries, clients, seconds, k))


async def _measure(
    url: str,
    headers: dict[str, str],
    queries: Sequence[str],
    clients: int,
    seconds: float,
    k: int,
) -> Load:
    import aiohttp

    bodies = itertools.cycle([write_request([query], k) for query in queries])
    latencies: list[float] = []
    errors: dict[str, int] = {}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        started = time.perf_counter()
        until = started + seconds
        try:
            await asyncio.gather(
                *(
                    _ask_until(until, session, url, bodies, latencies, errors)
                    for _ in range(clients)
                )
            )
        except (aiohttp.ClientError, OSError) as error:
            raise RetrieverUnavailable(f"{url} cannot be asked: {error}") from None
    return Load(clients, time.perf_counter() - started, latencies, errors)


async def _ask_until(
    until: float,
    session: Any,
    url: str,
    bodies: Iterator[bytes],
    latencies: list[float],
    errors: dict[str, int],
) -> None:
    while (sent := time.perf_counter()) < until:
        async with session.post(url, data=next(bodies)) as response:
            answer = await response.read()
        if response.status == 200:
            latencies.append(time.perf_counter() - sent)
        else:
            message = f"{response.status}: {read_error(answer)}"
            errors[message] = errors.get(message, 0) + 1
