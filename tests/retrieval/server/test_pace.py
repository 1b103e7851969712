"""Check searches that are slower than clients wait, or never end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from helpers.retrieval_server import EchoRetriever, RaisingBatcher, echo
from prompt_coevo.retrieval.batcher import DeadlineExceeded
from prompt_coevo.retrieval.errors import RetrieverUnavailable
from prompt_coevo.retrieval.pace import LateAnswers, Pace, Waiting
from prompt_coevo.retrieval.retriever import Hit
from prompt_coevo.retrieval.server.service import RetrievalService
from prompt_coevo.retrieval.server.settings import ServerSettings
from prompt_coevo.retrieval.worker import Worker


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is `now` and advances only while nothing can happen, or in a search."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        scheduled: Any = self._scheduled  # type: ignore[attr-defined]
        live = [handle.when() for handle in scheduled if not handle.cancelled()]
        if not self._ready and live:  # type: ignore[attr-defined]
            self.now = max(self.now, min(live))
        super()._run_once()  # type: ignore[misc]


class OnTheLoop:
    """A worker whose searches take `seconds(queries)` of the loop's time."""

    def __init__(self, loop: VirtualLoop, seconds: Callable[[int], float]) -> None:
        self.loop, self.seconds = loop, seconds
        self.batches: list[list[str]] = []

    async def searched(self, queries: list[str], k: int) -> list[list[Hit]]:
        self.batches.append(queries)
        await asyncio.sleep(self.seconds(len(queries)))
        return [echo(query, k) for query in queries]


def run(
    monkeypatch: pytest.MonkeyPatch,
    seconds: Callable[[int], float],
    scenario: Callable[[RaisingBatcher], Any],
    **options: Any,
) -> tuple[Any, list[list[str]]]:
    """Run the scenario in simulated time, with the real batcher except for its thread."""
    loop = VirtualLoop()
    slow = OnTheLoop(loop, seconds)
    batcher = RaisingBatcher(lambda queries, k: [], Worker("unused"), **options)
    monkeypatch.setattr(batcher, "_searched", slow.searched)
    clock = "prompt_coevo.retrieval.batcher.time.perf_counter"
    monkeypatch.setattr(clock, loop.time)
    try:
        return loop.run_until_complete(scenario(batcher)), slow.batches
    finally:
        rest = asyncio.all_tasks(loop)
        for task in rest:
            task.cancel()
        if rest:
            loop.run_until_complete(asyncio.wait(rest))
        monkeypatch.undo()
        loop.close()


async def insisting(
    batcher: RaisingBatcher, query: str, patience_s: float, tries: int, another: bool = False
) -> int:
    """Search as our client does: retry after a timeout, or with another query if `another`.

    Returns the number of attempts, 0 if it was never answered.
    """
    for attempt in range(1, tries + 1):
        query = f"{query}+" if another and attempt > 1 else query
        try:
            assert await batcher.search([query], 1, deadline_s=patience_s) == [echo(query, 1)]
            return attempt
        except DeadlineExceeded:
            await asyncio.sleep(0.01)
    return 0


def crowd(
    size: int, patience_s: float, tries: int, another: bool = False
) -> Callable[[RaisingBatcher], Any]:
    async def scenario(batcher: RaisingBatcher) -> list[int]:
        asked = (insisting(batcher, f"q{n}", patience_s, tries, another) for n in range(size))
        return list(await asyncio.gather(*asked))

    return scenario


def test_batches_shrink_to_what_clients_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 0.1 s a query, clients that wait 2 s would never get an answer from batches of 64."""
    tries, batches = run(monkeypatch, lambda n: 0.1 * n, crowd(64, 2.0, 12, another=True))
    assert 0 not in tries
    assert len(batches[0]) == 64  # nothing was known
    assert max(len(batch) for batch in batches[1:]) <= 20


@pytest.mark.parametrize("known", [False, True])
def test_a_search_longer_than_anybody_waits_is_answered_at_the_next_try(
    monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """A search takes 3 s, whatever its size, and clients wait 2 s: six searches used to be wasted."""

    async def scenario(batcher: RaisingBatcher) -> Any:
        if known:
            await crowd(4, 2.0, 3)(batcher)
        asked = (insisting(batcher, f"other {n}", 2.0, 12) for n in range(64))
        return list(await asyncio.gather(*asked))

    tries, batches = run(monkeypatch, lambda n: 3.0, scenario)
    assert 0 not in tries
    assert max(tries) <= 12
    assert len(batches) <= 6


def test_a_request_longer_than_its_client_waits_is_answered_in_several_tries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """0.1 s a query, 64 queries in the request, 2 s of patience."""
    queries = [f"q{number}" for number in range(64)]

    async def scenario(batcher: RaisingBatcher) -> int:
        for attempt in range(1, 20):
            try:
                found = await batcher.search(queries, 1, deadline_s=2.0)
                assert found == [echo(query, 1) for query in queries]
                return attempt
            except DeadlineExceeded:
                await asyncio.sleep(0.01)
        return 0

    tries, batches = run(monkeypatch, lambda n: 0.1 * n, scenario, max_batch=16)
    assert 1 < tries <= 6
    assert sum(map(len, batches)) == 64


def test_fast_searches_are_not_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    tries, batches = run(monkeypatch, lambda n: 0.0001 * n, crowd(1000, 2.0, 1))
    assert set(tries) == {1}
    assert [len(batch) for batch in batches] == [256, 256, 256, 232]


def test_batches_grow_again_when_the_backend_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    sick = [True]

    async def scenario(batcher: RaisingBatcher) -> list[int]:
        await crowd(64, 2.0, 9)(batcher)
        sick.clear()
        return list(await crowd(1000, 2.0, 3)(batcher))

    tries, batches = run(monkeypatch, lambda n: (0.1 if sick else 0.0001) * n, scenario)
    assert 0 not in tries
    assert max(len(batch) for batch in batches[-4:]) > 100


def test_with_too_much_to_do_searches_do_not_become_single_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some client is always almost out of time; a search alone costs five times as much here."""

    async def scenario(batcher: RaisingBatcher) -> list[int]:
        async def late(n: int) -> int:
            await asyncio.sleep(n * 0.02)
            return await insisting(batcher, f"q{n}", 2.0, 1)

        return list(await asyncio.gather(*(late(n) for n in range(400))))

    tries, _ = run(monkeypatch, lambda n: 0.19 + 0.04 * n, scenario)
    assert sum(tries) > 80  # one by one 40 could be answered, and with all the time of 2 s 180


def test_the_impatient_are_served_beside_the_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(batcher: RaisingBatcher) -> tuple[list[int], list[int]]:
        async def again_and_again(n: int) -> list[int]:
            return [await insisting(batcher, f"q{n} {time}", 20.0, 3) for time in range(5)]

        patient = asyncio.gather(*(again_and_again(n) for n in range(64)))
        await asyncio.sleep(0.1)
        impatient = [await insisting(batcher, f"i{time}", 2.0, 99) for time in range(5)]
        return impatient, [tries for one in await patient for tries in one]

    (impatient, patient), _ = run(monkeypatch, lambda n: 0.1 * n, scenario)
    assert 0 not in patient
    assert min(impatient) > 0
    assert max(impatient) <= 10


def test_what_timed_out_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(batcher: RaisingBatcher) -> None:
        first = asyncio.create_task(batcher.search(["first"], 1))
        await asyncio.sleep(0.5)
        with pytest.raises(DeadlineExceeded):
            await batcher.search(["late"], 1, deadline_s=1.0)
        half = asyncio.create_task(batcher.search([f"q{n}" for n in range(10)], 1, deadline_s=6.0))
        await first
        with pytest.raises(DeadlineExceeded):
            await half
        assert 0 < batcher.waiting < 10
        await batcher.search(["last"], 1)
        assert batcher.waiting == 0

    _, batches = run(monkeypatch, lambda n: 5.0, scenario, max_batch=4)
    assert batches[0] == ["first"]
    assert "late" not in {query for batch in batches for query in batch}
    assert batches[-1] == ["last"]


def ready(*left_s: float) -> list[Waiting]:
    return [Waiting(left, left) for left in left_s]


def test_what_a_model_took_to_load_is_soon_forgotten() -> None:
    pace = Pace()
    assert pace.room(256, ready(0.1, 5.0)).queries == 256
    pace.learn(1, 10.0)
    assert pace.room(256, ready(20.0)).queries == 1
    for _ in range(5):
        pace.learn(pace.room(256, ready(20.0)).queries, 0.01)
    assert pace.room(256, ready(20.0)).queries == 256


@pytest.mark.parametrize(("fixed", "each"), [(0.0, 0.1), (0.3, 0.01), (2.0, 0.0001)])
def test_costs_are_told_apart(fixed: float, each: float) -> None:
    pace = Pace()
    for queries in (1, 9, 100, 20, 3):
        pace.learn(queries, fixed + each * queries)
    assert pace.costs() == pytest.approx((fixed, each), abs=0.03 * (fixed + each * 27))


def test_the_most_impatient_says_how_many() -> None:
    pace = Pace()
    for queries in (10, 100):
        pace.learn(queries, 0.1 * queries)
    assert pace.room(256, ready(10.0, 2.0, 20.0)).queries in (13, 14)
    worn = Waiting(0.3, 2.0)  # too late for that client in any case
    assert pace.room(256, [*ready(20.0), worn]).queries in (139, 140)
    assert pace.room(256, [worn]).queries == 2
    assert pace.room(256, [Waiting(0.01, 2.0)]) == (1, float("-inf"))
    assert pace.room(256, [Waiting(-1.0, 2.0)]) == (1, float("-inf"))
    assert pace.room(256, ready(float("inf"))).queries == 256


def test_late_answers_are_given_once_and_not_for_ever() -> None:
    late = LateAnswers()
    late.keep("a", 1, echo("a", 1), now=0.0)
    assert late.take("a", 2, 1.0) is None
    assert late.take("a", 1, 1.0) == echo("a", 1)
    assert late.take("a", 1, 1.0) is None
    late.keep("a", 1, echo("a", 1), now=0.0)
    assert late.take("a", 1, 61.0) is None
    for number in range(20_000):
        late.keep(f"q{number}", 1, [], now=0.0)
    assert late.take("q3615", 1, 0.0) is None
    assert late.take("q3616", 1, 0.0) == []


def test_a_search_that_hangs_is_an_outage_and_the_next_one_is_made() -> None:
    retriever = EchoRetriever()
    hung = threading.Event()

    def search(queries: Sequence[str], k: int) -> list[list[Hit]]:
        if "hang" in queries:
            hung.wait()
        return retriever.search(queries, k)

    async def scenario() -> None:
        batcher = RaisingBatcher(search, Worker("test"), max_search_s=0.05)
        for _ in range(3):
            with pytest.raises(RetrieverUnavailable, match=r"a search hangs: .* within 0.05 s"):
                await batcher.search(["hang"], 1)
        while True:  # a busy machine may take longer than 0.05 s
            try:
                assert await batcher.search(["a"], 1) == [echo("a", 1)]
                break
            except RetrieverUnavailable:
                pass
        hung.set()

    asyncio.run(scenario())


def test_a_first_search_that_hangs_is_told_and_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    retriever = EchoRetriever()
    retriever.gate.clear()

    async def scenario() -> None:
        service = RetrievalService(retriever, ServerSettings(max_search_s=0.01))
        warming = asyncio.create_task(service.warm_up())
        while "the first search is not done after 0.01 s (max_search_s)" not in caplog.text:
            await asyncio.sleep(0.01)
        assert service.health().status_code == 503
        retriever.gate.set()
        await warming
        assert service.health().status_code == 200
        service.close()

    asyncio.run(scenario())


def test_a_timeout_of_the_retrievers_own_is_its_failure() -> None:
    def search(queries: Sequence[str], k: int) -> list[list[Hit]]:
        raise TimeoutError("the database took too long")

    async def scenario() -> None:
        with pytest.raises(TimeoutError, match="the database"):
            await RaisingBatcher(search, Worker("test"), max_search_s=3600).search(["a"], 1)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "error",
    [
        StopIteration("of a next()"),
        asyncio.CancelledError(),
        concurrent.futures.CancelledError(),
        GeneratorExit(),
        KeyboardInterrupt(),
        SystemExit(3),
    ],
    ids=lambda error: f"{type(error).__module__}.{type(error).__name__}",
)
def test_what_asyncio_does_not_pass_on_is_told_as_a_failure(error: BaseException) -> None:
    """Otherwise its caller would wait forever, or the loop and the server would end."""

    def search(queries: Sequence[str], k: int) -> list[list[Hit]]:
        if "bad" in queries:
            raise error
        return [[] for _ in queries]

    async def ask() -> list[object]:
        batcher = RaisingBatcher(search, Worker("test"))
        return list(await batcher.search_each(["good", "bad"], 1, deadline_s=60))

    good, bad = asyncio.run(ask())
    assert good == []
    assert isinstance(bad, RuntimeError)
    assert str(bad).startswith(f"it ended by {type(error).__name__}")
    assert bad.__cause__ is error


def test_a_worker_leaves_at_most_four_threads_behind() -> None:
    worker = Worker("test")
    gates = [threading.Event() for _ in range(6)]
    begun = threading.Semaphore(0)

    def hang(gate: threading.Event) -> str:
        begun.release()
        gate.wait()
        return threading.current_thread().name

    futures = []
    for gate in gates[:5]:
        futures.append(worker.submit(lambda gate=gate: hang(gate)))
        begun.acquire()
        worker.give_up(futures[-1])
    queued = worker.submit(lambda: "done")
    dropped = worker.submit(lambda: "never")
    worker.give_up(dropped)
    assert not queued.done()
    gates[0].set()  # one ends, and the fifth is left behind in its place
    assert queued.result() == "done"
    assert dropped.cancelled()
    for gate in gates:
        gate.set()
    assert [future.result() for future in futures] == ["test"] * 5
    assert worker.submit(lambda: "still there").result() == "still there"
    worker.close()
