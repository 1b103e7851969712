"""Retry without a clock: the waits between attempts pass at once.

A limit on the total time then always ends retries after the same number of attempts, however busy the
machine is, and no attempt comes near it.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

from prompt_coevo.reflection import patience

# Every thread and every task has its own.
_now: ContextVar[float] = ContextVar("_now", default=0.0)


def waits_take_no_time(patch: Callable[[Any, str, Any], None] = setattr) -> list[float]:
    """Patch the reflection model's and the retrieval client's waits; return them as they come.

    `patch` sets an attribute; give a fixture's `monkeypatch.setattr` to have it undone.
    """
    import tenacity

    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        _now.set(_now.get() + seconds)

    async def wait_in_a_task(seconds: float) -> None:
        wait(seconds)
        await asyncio.sleep(0)

    clock = SimpleNamespace(monotonic=_now.get)
    sleeps = {"Retrying": wait, "AsyncRetrying": wait_in_a_task}
    for name, sleep in sleeps.items():
        patch(tenacity, name, functools.partial(getattr(tenacity, name), sleep=sleep))
    patch(tenacity, "time", clock)
    patch(patience, "time", clock)
    return waits
