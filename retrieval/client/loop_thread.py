"""An event loop on its own thread, for callers without one."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from prompt_coevo.retrieval.errors import RetrieverUnavailable

Result = TypeVar("Result")


class LoopThread:
    """A daemon thread: the interpreter's exit does not wait for it."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._closed = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Run the coroutine on the loop. Raises RetrieverUnavailable after `close`, and in a forked
        process."""
        if self._closed or self._process != os.getpid():
            coroutine.close()
            raise RetrieverUnavailable(
                "the retriever was closed, or this process was forked from the one that opened it; open "
                "a new one"
            )
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Run one last coroutine and end the thread."""
        if self._closed:
            last.close()
            return
        future = self.submit(last)
        self._closed = True
        future.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
