"""Helpers for the laws: compare two runs, expect an error, ask concurrently, skip."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from prompt_coevo.threads import map_in_threads

AT_ONCE: Final = 8
T = TypeVar("T")


def same(one: T, other: T, what: str) -> None:
    """Raise AssertionError unless both are equal; the message names the first difference."""
    place = _difference(one, other, "")
    assert place is None, f"{what}; the first difference{place}"


def raises(expected: type[Exception], call: Callable[[], object], what: str) -> None:
    """Raise AssertionError unless the call raises exactly the expected error."""
    try:
        found = call()
    except expected:
        return
    except Exception as error:
        raise AssertionError(f"{what} raised {error!r}, not {expected.__name__}") from error
    raise AssertionError(f"{what} raised no {expected.__name__}, but gave {found!r:.200}")


def at_once(ask: Callable[[int], T]) -> list[T]:
    """Call `ask` with 0, 1, ... in as many threads, all started at the same moment."""
    ready = threading.Barrier(AT_ONCE)

    def wait_and_ask(number: int) -> T:
        ready.wait()
        return ask(number)

    return list(map_in_threads(wait_and_ask, range(AT_ONCE), AT_ONCE))


def skip(reason: str) -> None:
    """Skip the law. Imports pytest late, because nothing else here needs it."""
    import pytest

    pytest.skip(reason)


def _difference(one: object, other: object, where: str) -> str | None:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other}, key=str):
            if key not in one or key not in other:
                return f" is at {where}/{key}, which only one has"
            if (found := _difference(one[key], other[key], f"{where}/{key}")) is not None:
                return found
        return None
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        for place, (mine, theirs) in enumerate(zip(one, other, strict=False)):
            if (found := _difference(mine, theirs, f"{where}/{place}")) is not None:
                return found
        return None if len(one) == len(other) else f" is at {where}: {len(one)} and {len(other)}"
    return None if one == other else f" is at {where or '/'}: {one!r:.200} and {other!r:.200}"
