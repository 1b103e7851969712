"""Processes for long runs, which end with the command that made them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

Submit: TypeAlias = Callable[..., Future[Any]]


@contextmanager
def workers(count: int) -> Iterator[Submit]:
    """Yield `submit(function, *arguments)`, which calls the function in one of `count` processes.

    The processes end at once when the block ends by an exception or this process dies; their `finally`
    blocks do not run then. Once they have started, they ignore Ctrl-C, which a terminal sends to them too.
    """
    context = multiprocessing.get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    with theirs, ours, ProcessPoolExecutor(count, context, _end_with, (theirs,)) as pool:
        try:
            yield pool.submit
        except BaseException:
            ours.close()
            pool.shutdown(cancel_futures=True)
            raise


def _end_with(pipe: Connection) -> None:
    """End this process when nothing has the other end of the pipe open: nobody takes its result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait() -> None:
        with suppress(EOFError):
            pipe.recv()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
