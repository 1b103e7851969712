"""Run functions on daemon threads, which the interpreter does not wait for at exit.

`concurrent.futures` joins its threads at exit: a run that ends during a call would hang until the
server answers.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_work: ContextVar[Future[Any] | None] = ContextVar("_work", default=None)


def in_thread(function: Callable[[], Result]) -> Future[Result]:
    """Start `function` on a new daemon thread; the future holds its result or exception."""
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
    """Return the future of the outermost `in_thread` that the caller runs in; None on other threads."""
    return _work.get()


def done_with(result: Result) -> Future[Result]:
    """Return a finished future with this result."""
    future: Future[Result] = Future()
    future.set_result(result)
    return future


def map_in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], limit: int
) -> list[Result]:
    """Call `function` on every item, on at most `limit` threads at once; return the results in order.

    If the function raises, start no further items and raise the exception here.
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
