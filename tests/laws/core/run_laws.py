"""Running a class of laws without pytest's help, to see which ones are broken."""

from __future__ import annotations

from typing import Any

from _pytest.outcomes import Skipped


def laws_of(laws: type[Any]) -> list[str]:
    """The names of its laws, without the prefix that pytest wants."""
    return [name.removeprefix("test_") for name in dir(laws) if name.startswith("test_")]


def broken_laws(laws: type[Any]) -> dict[str, str]:
    """What each law that is broken says, by the law's name."""
    broken: dict[str, str] = {}
    for name in laws_of(laws):
        try:
            getattr(laws(), f"test_{name}")()
        except Skipped:
            continue
        except Exception as error:
            broken[name] = f"{type(error).__name__}: {error}"
    return broken
