"""Processes for long runs, which end with the command that made them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from typing import Any, Final, TypeAlias

Submit: TypeAlias = Callable[..., Future[Any]]

_GRACE: Final = 5.0  # seconds for a process to end in order
_AGAIN: Final = 0.25
"""Seconds until it is told again, because the pool takes some SystemExits for results."""
_ending = threading.Event()
_busy = False  # in a call
_unwinding = False  # the call is ending by SystemExit


@contextmanager
def workers(count: int) -> Iterator[Submit]:
    """Yield `submit(function, *arguments)`, which calls the function in one of `count` processes.

    The processes end within seconds when the block ends by an exception or this process dies. Once they
    have started, they ignore Ctrl-C, which a terminal sends to them too.
    """
    context = multiprocessing.get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    with theirs, ours, ProcessPoolExecutor(count, context, _end_with, (theirs,)) as pool:
        try:
            yield lambda function, *arguments: pool.submit(_call, function, *arguments)
        except BaseException:
            ours.close()
            pool.shutdown(cancel_futures=True)
            raise


def _end_with(pipe: Connection) -> None:
    """End this process when nothing has the other end of the pipe open: nobody takes its result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    sys.unraisablehook = _told_again
    Finalize(None, _stay, exitpriority=1000)  # the first thing that a process does on its way out

    def wait() -> None:
        with suppress(EOFError):
            pipe.recv()
        _ending.set()
        until = time.monotonic() + _GRACE
        while time.monotonic() < until:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
            time.sleep(_AGAIN)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    global _busy, _unwinding
    if _ending.is_set():  # the pool had given this process another call already
        sys.exit(1)
    _busy = True
    try:
        return function(*arguments)
    except SystemExit:
        if _ending.is_set():
            raise
        # Somebody ends this process alone. The pool would take the exception for the call's result.
        os._exit(1)
    finally:
        _busy = _unwinding = False


def _leave(*_: object) -> None:
    global _unwinding
    if not _unwinding:
        _unwinding = _busy
        sys.exit(1)


def _told_again(lost: sys.UnraisableHookArgs) -> None:
    """Wait for the next SIGTERM after a SystemExit that came while an object was deleted, where Python
    cannot raise it."""
    global _unwinding
    if lost.exc_type is SystemExit:
        _unwinding = False
    else:
        sys.__unraisablehook__(lost)


def _stay() -> None:
    """Let no further SIGTERM cut off what this process does while it ends."""
    signal.signal(signal.SIGTERM, lambda *_: None)
