"""HTTP requests to one of several servers, with retries on the next one where that may help."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from prompt_coevo.jitter import JITTER
from prompt_coevo.markers import PROJECT
from prompt_coevo.redact import redact
from prompt_coevo.registry import RETRIEVAL_TOKEN_VARIABLE
from prompt_coevo.retrieval.client.replicas import Replica, Replicas
from prompt_coevo.retrieval.client.urls import health_url
from prompt_coevo.retrieval.errors import RetrieverUnavailable
from prompt_coevo.retrieval.wire import FINGERPRINT_HEADER, TIMEOUT_HEADER, read_error, read_health

if TYPE_CHECKING:
    import aiohttp

logger = logging.getLogger(PROJECT)


class HttpAnswer(NamedTuple):
    """A raw reply."""

    status: int
    headers: Mapping[str, str]
    body: bytes


# 408 and 429 come from overloaded servers and proxies.
_TRANSIENT: Final = {408, 429, 502, 503, 504}
_TURNED_AWAY: Final = {401, 403, 421}
_FIRST_WAIT_S: Final = 0.1
_LONGEST_WAIT_S: Final = 2.0
# Shorter than uvicorn's limit, after which Search-R1's server closes idle connections.
_KEEP_ALIVE_S: Final = 4.0
# Time for a list of servers to say what they search, before the first search.
_COMPARED_WITHIN_S: Final = 5.0


class _Transient(RetrieverUnavailable):
    """A failure after which the same request may work."""

    def __init__(self, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Asking:
    """A client's requests to `urls`; belongs to the event loop that uses it first.

    A request is retried, with jitter and on the next server, while a connection fails or the answer is 408,
    429, 502, 503 or 504, for `total_timeout_s` in all.
    """

    def __init__(
        self, urls: Sequence[str], headers: Mapping[str, str], total_timeout_s: float
    ) -> None:
        self._replicas = Replicas(urls)
        self._headers = headers
        self._total_timeout_s = total_timeout_s
        self._session: aiohttp.ClientSession | None = None
        self._comparing: asyncio.Task[None] | None = None

    @property
    def urls(self) -> list[str]:
        """Return the addresses for searches, without passwords."""
        return self._replicas.names

    @property
    def servers(self) -> int:
        """Return how many servers there are at the moment."""
        return len(self._replicas)

    def change_urls(self, urls: Sequence[str]) -> None:
        """Ask other servers from now on, also for the requests under way."""
        self._replicas.change(urls)

    def expect(self, fingerprint: str) -> None:
        """Take answers from servers with this fingerprint only."""
        self._replicas.expected = fingerprint

    async def post(self, body: bytes) -> HttpAnswer:
        """Send a search. Raises RetrieverUnavailable, and ReplicasDiffer if the indexes differ."""
        return await self._retrying(body)

    async def health(self) -> HttpAnswer:
        """Ask one of the servers for its health. Raises as `post`."""
        return await self._retrying(None)

    def check_let_in(self, answer: HttpAnswer) -> None:
        """Raise RetrieverUnavailable if the server refused access."""
        if answer.status in _TURNED_AWAY:
            raise RetrieverUnavailable(
                f"{' or '.join(self.urls)} answered {answer.status}: {read_error(answer.body)}; the "
                f"client's token is `token`, or the environment variable {RETRIEVAL_TOKEN_VARIABLE}"
            )

    async def aclose(self) -> None:
        """Release the connections."""
        if self._comparing is not None:
            self._comparing.cancel()
            await asyncio.wait([self._comparing])
        if self._session is not None:
            await self._session.close()

    async def _retrying(self, body: bytes | None) -> HttpAnswer:
        """Ask one server after the other until one answers or the time is up."""
        import tenacity

        await self._compared()
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._total_timeout_s
        backoff = tenacity.wait_exponential(multiplier=_FIRST_WAIT_S, max=_LONGEST_WAIT_S)

        def wait(state: tenacity.RetryCallState) -> float:
            if self._replicas.any_ready(clock()):
                return 0.0
            error = state.outcome.exception() if state.outcome else None
            asked_for = error.retry_after_s if isinstance(error, _Transient) else 0.0
            return max(JITTER.uniform(0, backoff(state)), asked_for * JITTER.uniform(1.0, 1.5))

        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(_Transient),
            wait=wait,
            stop=tenacity.stop_before_delay(self._total_timeout_s),
            reraise=True,
        )
        try:
            return await retrying(self._attempt, body, deadline)
        except _Transient as error:
            raise RetrieverUnavailable(
                f"no retrieval server answered within {self._total_timeout_s:.3g} s: {error}"
            ) from None

    async def _attempt(self, body: bytes | None, deadline: float) -> HttpAnswer:
        clock = asyncio.get_running_loop().time
        if not len(self._replicas):
            raise _Transient("there is none at the moment")
        replica = self._replicas.pick(clock())
        left = deadline - clock()
        if left <= 0:
            raise _Transient("no time is left")
        try:
            # Leave some time to ask another server if this one hangs.
            seconds = left if len(self._replicas) == 1 else left / 2
            answer = await self._http(replica, seconds, body)
            if answer.status in _TRANSIENT:
                sentence = f"{replica.name} answered {answer.status}: {read_error(answer.body)}"
                raise _Transient(sentence, _retry_after(answer.headers))
        except _Transient as error:
            self._replicas.failed(replica, clock(), error.retry_after_s)
            raise
        self._check_index(replica, answer)
        self._replicas.answered(replica)
        return answer

    def _check_index(self, replica: Replica, answer: HttpAnswer) -> None:
        """Raise _Transient if the server's index differs from the others', so that the next one is
        asked."""
        clock = asyncio.get_running_loop().time
        told = answer.headers.get(FINGERPRINT_HEADER)
        ours = told or self._replicas.expected is None or answer.status in _TURNED_AWAY
        if not ours:
            told = "none"  # somebody else's server at the address of one of ours
        problem = self._replicas.tells(replica, told)
        if problem is not None:
            if problem.is_news:
                logger.error("%s; it is left out until its index matches", problem.sentence)
            self._replicas.leave_out(replica, clock())
            raise _Transient(problem.sentence)

    async def _compared(self) -> None:
        """Compare the servers' indexes before the first search. Those that do not answer may follow
        later."""
        if len(self._replicas) == 1 or self._replicas.expected is not None:
            return
        if self._comparing is None:
            self._comparing = asyncio.get_running_loop().create_task(self._compare())
        # Not the task itself: cancelling one caller must not cancel it for the others.
        await asyncio.wait([self._comparing])
        if not self._comparing.cancelled() and (error := self._comparing.exception()) is not None:
            raise error

    async def _compare(self) -> None:
        within_s = min(_COMPARED_WITHIN_S, self._total_timeout_s / 2)

        async def told_by(replica: Replica) -> tuple[Replica, str | None]:
            try:
                answer = await self._http(replica, within_s, None)
                return replica, read_health(
                    answer.body
                ).fingerprint if answer.status == 200 else None
            except RetrieverUnavailable:
                return replica, None

        told = await asyncio.gather(*(told_by(replica) for replica in self._replicas))
        self._replicas.agree(told)

    async def _http(self, replica: Replica, seconds: float, body: bytes | None) -> HttpAnswer:
        """Send the body as a search, or without a body ask for the server's health."""
        import aiohttp

        method = "GET" if body is None else "POST"
        url = health_url(replica.url) if body is None else replica.url
        headers = {**self._headers, TIMEOUT_HEADER: f"{seconds:.3f}"}
        limit = aiohttp.ClientTimeout(total=seconds)
        try:
            async with self._connections().request(
                method, url, data=body, headers=headers, timeout=limit
            ) as response:
                return HttpAnswer(response.status, response.headers, await response.read())
        except TimeoutError:
            raise _Transient(f"{redact(url)} did not answer within {seconds:.3g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _Transient(redact(f"{url}: {error or type(error).__name__}")) from None

    def _connections(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds that the server asks to wait; 0 if it names none, or a date."""
    try:
        seconds = float(headers.get("retry-after", 0))
    except ValueError:
        return 0.0
    return seconds if math.isfinite(seconds) and seconds > 0 else 0.0
