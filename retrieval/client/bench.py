"""Closed-loop load on a retrieval server: its throughput, latency and cost.

Every client has its own connection and sends one request after the other: one query per call, like rollouts
that search whenever they need to, or many, like Search-R1 with the queries of a step.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prompt_coevo.extras import require
from prompt_coevo.retrieval.access import request_headers
from prompt_coevo.retrieval.client.urls import metrics_url, retrieve_url
from prompt_coevo.retrieval.errors import RetrieverUnavailable
from prompt_coevo.retrieval.wire import read_error, write_request

if TYPE_CHECKING:
    import aiohttp

_CPU = b"process_cpu_seconds_total "
_METRICS_TIMEOUT_S = 5.0


@dataclass
class Load:
    """Measured results.

    `latencies_s` and `queries` (the total number) are of the requests that succeeded; `errors` counts the
    others by error text. `server_cpu_s` is the CPU time that the server reports, or None.
    """

    clients: int
    per_call: int
    seconds: float = 0.0
    queries: int = 0
    latencies_s: list[float] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)
    server_cpu_s: float | None = None

    @property
    def queries_per_s(self) -> float:
        return self.queries / self.seconds

    @property
    def queries_per_cpu_s(self) -> float | None:
        """Return queries per second of the server's CPU time, or None if that is unknown."""
        return self.queries / self.server_cpu_s if self.server_cpu_s else None

    def latency_s(self, quantile: float) -> float:
        """Return a quantile of the requests' latency; NaN if nothing was answered."""
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
    per_call: int = 1,
    k: int = 3,
    token: str | None = None,
) -> Load:
    """Send requests for `seconds`, with `clients` clients that share the queries and send `per_call` at a
    time.

    Requests sent in time are waited for. `token` is as in RemoteClient. Raises RetrieverUnavailable if no
    connection can be made, SettingsError for an unusable address or token.
    """
    require("aiohttp", extra="retrieval", purpose="measuring a retrieval server")
    url, headers = retrieve_url(address), request_headers(token, [address])
    bodies = list(_bodies(queries, per_call, k))
    return asyncio.run(_measure(url, headers, bodies, seconds, Load(clients, per_call)))


def _bodies(queries: Sequence[str], per_call: int, k: int) -> Iterator[bytes]:
    """Yield request bodies with each query at least once; the last one is filled up from the first
    queries."""
    every = itertools.cycle(queries)
    for _ in range(0, len(queries), per_call):
        yield write_request(list(itertools.islice(every, per_call)), k)


async def _measure(
    url: str, headers: dict[str, str], bodies: Sequence[bytes], seconds: float, load: Load
) -> Load:
    import aiohttp

    given = itertools.cycle(bodies)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        before = await _server_cpu_s(session, url)
        started = time.perf_counter()
        until = started + seconds
        try:
            await asyncio.gather(
                *(_ask_until(until, session, url, given, load) for _ in range(load.clients))
            )
        except (aiohttp.ClientError, OSError) as error:
            raise RetrieverUnavailable(f"{url} cannot be asked: {error}") from None
        load.seconds = time.perf_counter() - started
        after = await _server_cpu_s(session, url)
        if before is not None and after is not None:
            load.server_cpu_s = after - before
    return load


async def _server_cpu_s(session: aiohttp.ClientSession, url: str) -> float | None:
    """Read the CPU time from the server's /metrics; other servers have none."""
    import aiohttp

    try:
        timeout = aiohttp.ClientTimeout(_METRICS_TIMEOUT_S)
        async with session.get(metrics_url(url), timeout=timeout) as response:
            lines = (await response.read()).split(b"\n")
        return next((float(line[len(_CPU) :]) for line in lines if line.startswith(_CPU)), None)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return None


async def _ask_until(
    until: float, session: aiohttp.ClientSession, url: str, bodies: Iterator[bytes], load: Load
) -> None:
    while (sent := time.perf_counter()) < until:
        async with session.post(url, data=next(bodies)) as response:
            answer = await response.read()
        if response.status == 200:
            load.latencies_s.append(time.perf_counter() - sent)
            load.queries += load.per_call
        else:
            message = f"{response.status}: {read_error(answer)}"
            load.errors[message] = load.errors.get(message, 0) + 1
