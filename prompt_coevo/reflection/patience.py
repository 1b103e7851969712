"""Asking again, where a reply says that it may help."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from prompt_coevo.proposals import Reply
from prompt_coevo.threads import in_thread

if TYPE_CHECKING:
    from tenacity import RetryCallState

_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 60.0


class Patience:
    """Asks again with exponential backoff and jitter, and within `total_timeout_s` in all.

    How long the first attempt takes is the model's own affair.
    """

    def __init__(self, total_timeout_s: float = 300.0) -> None:
        self._total_timeout_s = total_timeout_s

    def asked(self, attempt: Callable[[bool], Reply]) -> Reply:
        """The reply of the last attempt. `attempt` is told whether it is one more than the first.

        One that is still under way when the time is over goes on in its thread, and nobody waits for it:
        the reply before it, which says more than a time-out, is the last one then.
        """
        import tenacity

        deadline = time.monotonic() + self._total_timeout_s
        latest: list[Reply] = []

        def once() -> Reply:
            reply = self._in_time(attempt, deadline, latest[-1]) if latest else attempt(False)
            latest.append(reply)
            return reply

        backoff = tenacity.wait_exponential(
            multiplier=_FIRST_WAIT_S, max=_LONGEST_WAIT_S
        ) + tenacity.wait_random(0, _FIRST_WAIT_S)

        def wait(state: RetryCallState) -> float:
            return max(backoff(state), latest[-1].retry_after or 0.0)

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_result(lambda reply: reply.retry_after is not None),
            wait=wait,
            stop=tenacity.stop_before_delay(self._total_timeout_s),
            retry_error_callback=lambda state: latest[-1],
        )
        return retrying(once)

    @staticmethod
    def _in_time(attempt: Callable[[bool], Reply], deadline: float, before: Reply) -> Reply:
        seconds = deadline - time.monotonic()
        if seconds > 0:  # or a busy machine slept longer than the wait between two attempts
            with suppress(TimeoutError):
                return in_thread(lambda: attempt(True)).result(seconds)
        return replace(before, retry_after=None)
