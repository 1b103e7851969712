"""Check the comparison that keeps stand-ins in line with what they replace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.signatures import misfits, read_function


def real(self: Any, prompt: str, size: int = 3, *, mode: str = "abort") -> None: ...


class OneOfMany:
    def fewer(self: Any, prompt: str) -> None: ...
    def stricter(self: Any, prompt: str, size: int) -> None: ...
    def by_name(self: Any, prompt: str, *, mode: str = "abort") -> None: ...
    def takes_all(self: Any, **_: Any) -> None: ...
    def another_name(self: Any, prompt: str, length: int = 3) -> None: ...
    def another_place(self: Any, size: int, prompt: str) -> None: ...
    def by_place(self: Any, prompt: str, size: int = 3, mode: str = "abort") -> None: ...
    def another_default(self: Any, prompt: str, size: int = 4) -> None: ...
    def without(self: Any) -> None: ...
    async def waited_for(self: Any, prompt: str) -> None: ...
    async def generated(self: Any, prompt: str) -> AsyncIterator[int]:
        yield 1


@pytest.mark.parametrize("name", ["fewer", "stricter", "by_name", "takes_all"])
def test_what_fits(name: str) -> None:
    assert misfits(getattr(OneOfMany, name), real) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("another_name", ["length: the real one has no such parameter"]),
        ("another_place", ["size: another place", "prompt: another place"]),
        ("by_place", ["mode: another place"]),
        ("another_default", ["size: 4 by default, and there 3"]),
        ("without", ["prompt: the real one needs it"]),
        ("waited_for", ["a coroutine, and the real one a function"]),
        ("generated", ["an asynchronous generator, and the real one a function"]),
    ],
)
def test_what_does_not_fit(name: str, said: list[str]) -> None:
    assert misfits(getattr(OneOfMany, name), real) == said


@pytest.mark.parametrize("name", ["fewer", "by_place", "takes_all", "waited_for", "generated"])
def test_a_function_that_is_read_has_the_same_signature(name: str) -> None:
    imported: Callable[..., Any] = getattr(OneOfMany, name)
    read = read_function(Path(__file__), "OneOfMany", name)
    assert misfits(read, imported) == misfits(imported, read) == []


def test_a_function_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=r"has no OneOfMany.nothing"):
        read_function(Path(__file__), "OneOfMany", "nothing")
