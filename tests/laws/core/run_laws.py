"""Putting a law to something without pytest's help, to see whether it is broken."""

from __future__ import annotations

from typing import Any

from _pytest.outcomes import Skipped


def laws_of(laws: type[Any]) -> list[str]:
    """The names of its laws, without the prefix that pytest wants."""
    return [name.removeprefix("test_") for name in dir(laws) if name.startswith("test_")]


def broken(laws: type[Any], law: str) -> str | None:
    """What the law says if it is broken."""
    try:
        getattr(laws(), f"test_{law}")()
    except Skipped:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
