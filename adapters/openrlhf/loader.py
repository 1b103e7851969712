"""The prompt dataloader, whose state OpenRLHF saves in both of its trainers, with ours in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

STATE: Final = "prompt_coevo"
METRICS: Final = "prompt_coevo_metrics"


class StatefulPrompts:
    """Stands in for the dataloader: everything else is the dataloader's."""

    def __init__(
        self,
        loader: Any,
        save: Callable[[], dict[str, Any] | None],
        load: Callable[[dict[str, Any] | None], None],
        metrics: Callable[[], dict[str, float]],
    ) -> None:
        self._loader = loader
        self._save = save
        self._load = load
        self._metrics = metrics

    def __iter__(self) -> Iterator[Any]:
        return iter(self._loader)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def state_dict(self) -> dict[str, Any]:
        state = self._save()
        ours = {} if state is None else {STATE: state}
        return {**self._loader.state_dict(), **ours, METRICS: self._metrics()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        theirs = {name: value for name, value in state.items() if name not in (STATE, METRICS)}
        self._loader.load_state_dict(theirs)
        self._load(state.get(STATE))
