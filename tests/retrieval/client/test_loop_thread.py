"""Check the order in which an event loop on its own thread ends."""

from __future__ import annotations

import asyncio
import threading

import pytest

from prompt_coevo.retrieval.client.loop_thread import LoopThread
from prompt_coevo.retrieval.errors import RetrieverUnavailable


def test_what_is_under_way_is_interrupted_before_the_last_one() -> None:
    thread, ended, begun = LoopThread("one"), list[str](), threading.Event()

    async def waiting() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("under way")

    async def last() -> None:
        ended.append("last")

    future = thread.submit(waiting())
    assert begun.wait(60)
    thread.close(last())
    assert ended == ["under way", "last"]
    with pytest.raises(RetrieverUnavailable, match="closed while this was under way"):
        future.result(60)
    with pytest.raises(RetrieverUnavailable, match="the retriever was closed"):
        thread.submit(last())
    thread.close(last())
    assert ended == ["under way", "last"]
