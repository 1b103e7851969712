"""Work on daemon threads, which nothing waits for when the interpreter exits.

`concurrent.futures` joins its threads at exit: a run that ends while a call is under way would hang
until the server answers.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_work: ContextVar[Future[Any] | None] = ContextVar("_work", default=None)


def in_thread(function: Callable[[], Result]) -> Future[Result]:
    """Start `function` on a daemon thread of its own; the future holds its result or exception."""
    future: Future[Result] = Future()
    whole = _work.get() or future

    def work() -> None:
        _work.set(whole)
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def work_under_way() -> Future[Any] | None:
    """The outermost work of `in_thread` that the caller is part of; None on other threads."""
    return _work.get()


def done_with(result: Result) -> Future[Result]:
    """What `in_thread` gives, of a function that has returned this result."""
    future: Future[Result] = Future()
    future.set_result(result)
    return future


def map_in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], limit: int
) -> list[Result]:
    """`function` of every item, in order, on at most `limit` threads at once.

    If the function raises, no further item is begun and the exception is raised here.
    """
    waiting = deque(enumerate(items))
    results: dict[int, Result] = {}

    def work() -> None:
        while True:
            try:
                index, item = waiting.popleft()
            except IndexError:
                return
            try:
                results[index] = function(item)
            except BaseException:
                waiting.clear()
                raise

    workers = [in_thread(work) for _ in range(min(limit, len(items)))]
    for worker in workers:
        worker.result()
    return [results[index] for index in range(len(items))]


class Background(Generic[Result]):
    """Work that has just begun (`in_thread`), or is done (`done_with`), and how long it takes."""

    def __init__(self, future: Future[Result]) -> None:
        self._started = time.monotonic()
        self._ended: float | None = None
        self._future = future
        self._future.add_done_callback(self._stop_clock)

    @property
    def done(self) -> bool:
        return self._future.done()

    @property
    def seconds(self) -> float:
        """How long the call took, or has taken so far."""
        return (self._ended or time.monotonic()) - self._started

    def result(self, within: float) -> Result:
        """The function's result; waits until `within` seconds after it began.

        Raises TimeoutError, or what the function raised.
        """
        try:
            return self._future.result(max(0.0, self._started + within - time.monotonic()))
        except TimeoutError:
            if self._future.done():  # it came at the last moment, or raised this itself
                return self._future.result()
            raise TimeoutError(f"there was no reply within {within:g} s") from None

    def _stop_clock(self, _: object) -> None:
        self._ended = time.monotonic()
