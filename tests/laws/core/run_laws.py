"""Run a law without pytest, to see whether it is broken."""

from __future__ import annotations

from typing import Any

from _pytest.outcomes import Skipped


def laws_of(laws: type[Any]) -> list[str]:
    """Return the names of its laws, without pytest's prefix."""
    return [name.removeprefix("test_") for name in dir(laws) if name.startswith("test_")]


def broken(laws: type[Any], law: str) -> str | None:
    """Return the law's message if it is broken."""
    try:
        getattr(laws(), f"test_{law}")()
    except Skipped:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
