"""One call in the background, while training goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Runs `function()` on a thread that does not keep the process alive.

    `seconds` is how long the call took, or has taken so far.
    """

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._finished = threading.Event()
        self._result: T | None = None
        self._error: Exception | None = None
        self._started = time.monotonic()
        self._ended: float | None = None
        threading.Thread(target=self._run, name="coevo-reflection", daemon=True).start()

    @property
    def done(self) -> bool:
        return self._finished.is_set()

    @property
    def seconds(self) -> float:
        return (self._ended or time.monotonic()) - self._started

    def result(self, within: float) -> T:
        """The function's result; waits until `within` seconds after the call was started.

        Raises TimeoutError, or what the function raised.
        """
        if not self._finished.wait(max(0.0, self._started + within - time.monotonic())):
            raise TimeoutError(f"there was no reply within {within:g} s")
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]

    def _run(self) -> None:
        try:
            self._result = self._function()
        except Exception as error:
            self._error = error
        self._ended = time.monotonic()
        self._finished.set()
