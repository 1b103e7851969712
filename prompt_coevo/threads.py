"""Work on daemon threads, which nothing waits for when the interpreter exits.

`concurrent.futures` joins its threads at exit: a run that ends while a call is under way would hang
until the server answers.
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
