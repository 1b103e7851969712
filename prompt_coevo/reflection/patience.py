"""Retry calls whose replies say that it may help."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from prompt_coevo.jitter import JITTER
from prompt_coevo.proposals import Reply
from prompt_coevo.threads import in_thread

_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 60.0


def patiently(attempt: Callable[[bool], Reply], total_timeout_s: float) -> Reply:
    """Call `attempt` until no retry is due, with exponential backoff and jitter; return the last reply.

    Its argument is True for a retry. The first attempt has no time limit here. A retry that is still under
    way after `total_timeout_s` continues in its thread, but is not waited for: the reply before it, which
    says more than a time-out would, is returned.
    """
    import tenacity

    deadline = time.monotonic() + total_timeout_s
    latest: list[Reply] = []

    def once() -> Reply:
        latest.append(_in_time(attempt, deadline, latest[-1]) if latest else attempt(False))
        return latest[-1]

    backoff = tenacity.wait_exponential(multiplier=_FIRST_WAIT_S, max=_LONGEST_WAIT_S)

    def wait(state: tenacity.RetryCallState) -> float:
        return max(backoff(state) + JITTER.uniform(0, _FIRST_WAIT_S), latest[-1].retry_after or 0.0)

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda reply: reply.retry_after is not None),
        wait=wait,
        stop=tenacity.stop_before_delay(total_timeout_s),
        retry_error_callback=lambda state: latest[-1],
    )
    return retrying(once)


def _in_time(attempt: Callable[[bool], Reply], deadline: float, before: Reply) -> Reply:
    seconds = deadline - time.monotonic()
    if seconds > 0:  # it is not if a busy machine slept longer than the planned wait
        with suppress(TimeoutError):
            return in_thread(lambda: attempt(True)).result(seconds)
    return replace(before, retry_after=None)
