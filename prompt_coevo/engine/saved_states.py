"""Which events of a journal still count once a run went on from a checkpoint."""

from __future__ import annotations

from collections.abc import Callable


class SavedStates:
    """Where in a journal a run's states were saved, by step. Places count the events up."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}

    def saved(self, step: int, place: int) -> None:
        """The event at this place says that a state was saved."""
        self._places[step] = place

    def resumed(self, step: int) -> Callable[[int, int], bool]:
        """The run goes on from this step's state. Says whether an event of a step, at a place before this
        one, is what happened: what came after the state is not, and is done again."""
        saved = self._places.get(step)
        self._places = {one: place for one, place in self._places.items() if one <= step}

        def counts(when: int, place: int) -> bool:
            if when != step:
                return when < step
            # Without its state, what was decided before the first step is decided once more.
            return place <= saved if saved is not None else step > 0

        return counts
