"""One call in the background, while training goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from prompt_coevo.threads import in_thread

T = TypeVar("T")


class Background(Generic[T]):
    """Runs `function()` on a thread that does not keep the process alive."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._started = time.monotonic()
        self._ended: float | None = None
        self._future = in_thread(function)
        self._future.add_done_callback(self._stop_clock)

    @property
    def done(self) -> bool:
        return self._future.done()

    @property
    def seconds(self) -> float:
        """How long the call took, or has taken so far."""
        return (self._ended or time.monotonic()) - self._started

    def result(self, within: float) -> T:
        """The function's result; waits until `within` seconds after the call was started.

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
