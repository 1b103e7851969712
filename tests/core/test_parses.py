"""The tests read Python files while threads of other tests may print tracebacks."""

from __future__ import annotations

import ast
import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def another_parses_while_garbage_is_collected() -> Iterator[None]:
    def collected(phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            other = threading.Thread(target=ast.parse, args=("1 + 1",))
            other.start()
            other.join()

    threshold = gc.get_threshold()
    gc.callbacks.append(collected)
    gc.set_threshold(100)
    yield
    gc.set_threshold(*threshold)
    gc.callbacks.remove(collected)


@pytest.mark.usefixtures("another_parses_while_garbage_is_collected")
def test_a_file_is_parsed_whatever_a_thread_parses() -> None:
    text = Path(__file__).read_text("utf-8")
    assert len(ast.parse(text * 5).body) == 5 * len(ast.parse(text).body)
