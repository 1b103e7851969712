"""An event loop on its own thread, for callers without one."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from prompt_coevo.retrieval.errors import RetrieverUnavailable

Result = TypeVar("Result")
_GONE: Final = (
    "the retriever was closed, or this process was forked from the one that opened it; open a new "
    "one"
)


class LoopThread:
    """A daemon thread: the interpreter's exit does not wait for it."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._closed = False
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Run the coroutine on the loop. Raises RetrieverUnavailable after `close`, and in a forked
        process. So does the future of one that `close` interrupts."""
        if self._process == os.getpid():
            with self._lock:  # none may come once it is being closed
                if not self._closed:
                    return asyncio.run_coroutine_threadsafe(self._run(coroutine), self._loop)
        coroutine.close()
        raise RetrieverUnavailable(_GONE)

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Interrupt what is under way, run one last coroutine, and end the thread.

        Raises RetrieverUnavailable in a forked process.
        """
        if self._process != os.getpid():
            last.close()
            raise RetrieverUnavailable(_GONE)
        with self._lock:
            closed, self._closed = self._closed, True
        if closed:
            last.close()
            return
        # The last one closes connections: what is still under way must not meet closed ones.
        for coroutine in (self._interrupt(), last):
            asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        try:
            return await coroutine
        except asyncio.CancelledError:
            if not self._closed:
                raise
            raise RetrieverUnavailable("the client was closed while this was under way") from None

    async def _interrupt(self) -> None:
        await asyncio.sleep(0)  # let those begin that have not, and those end that were answered
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
