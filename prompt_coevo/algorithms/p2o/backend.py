"""Which search wrote a state: one cannot go on from another's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from prompt_coevo.errors import StateError

KEY: Final = "search_backend"


def check_backend(state: Mapping[str, Any], backend: str) -> None:
    """Raise StateError if the state is that of a search of another kind."""
    saved = state.get(KEY, "waves")
    if (saved == "stream") != (backend == "stream"):
        raise StateError(
            f'the checkpoint holds the state of p2o.search_backend = "{saved}", and this run has '
            f'"{backend}"; set the same one, or start without this checkpoint'
        )
