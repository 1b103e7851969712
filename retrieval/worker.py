"""One thread that does one thing after the other."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

# Each holds on to the memory of its search.
_MOST_LEFT_BEHIND: Final = 4


class Worker:
    """A daemon thread that lives as long as its owner, and is not waited for at exit.

    Searches stay on one thread: OpenMP keeps a pool of threads for each thread that ever called it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = (
            queue.SimpleQueue()
        )
        self._lock = threading.Lock()
        self._busy_with: Future[Any] | None = None
        self._given_up: Future[Any] | None = None
        self._left_behind = 0
        self._start()

    def submit(self, function: Callable[[], Result]) -> Future[Result]:
        """Do this after what was submitted before; the future holds its result or exception."""
        future: Future[Result] = Future()
        self._work.put((future, function))
        return future

    def give_up(self, future: Future[Any]) -> None:
        """Nobody waits for this any more: it is not begun, or another thread does what comes next.

        The thread that is busy with it ends when it is done. At most four are left behind like this; what
        is submitted then waits until one of them ends.
        """
        if future.cancel():
            return
        with self._lock:
            self._given_up = future
            self._leave_behind()

    def close(self) -> None:
        """End the thread once everything submitted so far is done."""
        self._work.put(None)

    def _start(self) -> None:
        self._busy_with = self._given_up = None
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def _leave_behind(self) -> None:
        """The thread that is busy with what was given up, if it is and there may be one more."""
        hangs = self._given_up is not None and self._given_up is self._busy_with
        if hangs and self._left_behind < _MOST_LEFT_BEHIND:
            self._left_behind += 1
            self._start()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            future, function = work
            if not future.set_running_or_notify_cancel():
                continue
            with self._lock:
                self._busy_with = future
            _fulfil(future, function)
            with self._lock:
                if self._thread is not threading.current_thread():
                    self._left_behind -= 1
                    self._leave_behind()
                    return
                self._busy_with = None


def _fulfil(future: Future[Any], function: Callable[[], Any]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(_awaitable(error))


def _awaitable(error: BaseException) -> BaseException:
    """An error that whoever awaits the future is given.

    asyncio passes no StopIteration on, takes a CancelledError for its own, and ends its loop for what is no
    Exception, such as SystemExit: those who wait would never be told.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration | CancelledError):
        return error
    ended = RuntimeError(f"it ended by {type(error).__name__}{f': {error}' if str(error) else ''}")
    ended.__cause__ = error
    return ended
