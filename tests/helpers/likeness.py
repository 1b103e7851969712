"""Define likeness for tests by a value that questions share."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from prompt_coevo.algorithms.stream.likeness import Alike


class SharedValue:
    """Treat questions with an equal value, such as a topic, as alike by `weight`; None is unlike all."""

    def __init__(self, values: Sequence[Hashable | None], weight: float = 0.5) -> None:
        self._values, self._weight = values, weight

    def near(self, number: int) -> Alike:
        value = self._values[number]
        same = [n for n, other in enumerate(self._values) if other == value and value is not None]
        numbers = [number, *(other for other in same if other != number)]
        weights = [1.0] + [self._weight] * (len(numbers) - 1)
        return Alike(np.array(numbers, np.int32), np.array(weights, np.float32))
