"""One thread that runs one function after the other."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

# Each keeps its search's memory.
_MOST_LEFT_BEHIND: Final = 4


class Worker:
    """A daemon thread that lives as long as its owner; exit does not wait for it.

    All searches run on one thread, because OpenMP keeps a thread pool for each thread that ever called it.
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
        """Run this after everything submitted before; the future holds its result or exception."""
        future: Future[Result] = Future()
        self._work.put((future, function))
        return future

    def give_up(self, future: Future[Result]) -> None:
        """Abandon a future that nobody waits for: it is not started, or another thread takes over the
        following work.

        The thread that is busy with it ends when it is done. At most four threads are left behind like
        this; further work then waits until one of them ends.
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
        """Leave the thread behind if it is busy with the abandoned future and there are not too many
        yet."""
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


def _fulfil(future: Future[Result], function: Callable[[], Result]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(_awaitable(error))


def _awaitable(error: BaseException) -> BaseException:
    """Return an error that whoever awaits the future gets to see.

    asyncio does not pass on StopIteration, takes a CancelledError for its own, and ends its loop for a
    BaseException such as SystemExit: those who wait would never hear of it.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration | CancelledError):
        return error
    ended = RuntimeError(f"it ended by {type(error).__name__}{f': {error}' if str(error) else ''}")
    ended.__cause__ = error
    return ended
