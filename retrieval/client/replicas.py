"""Which of several equal servers to ask."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0


@dataclass(eq=False, slots=True)
class Replica:
    """A server; `out_until` is when it is asked again after a failure."""

    url: str
    failures: int = 0
    out_until: float = 0.0


class Replicas:
    """Takes turns. One that failed is left out for a while, for longer each time.

    Times are those of any one clock, in seconds.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._all = [Replica(url) for url in urls]
        self._turn = random.randrange(len(self._all))  # clients should not all begin with the first

    def __len__(self) -> int:
        return len(self._all)

    @property
    def urls(self) -> list[str]:
        return [replica.url for replica in self._all]

    def pick(self, now: float) -> Replica:
        """The next one in turn; if all are left out, the one whose time is up first."""
        turn = self._all[self._turn :] + self._all[: self._turn]
        ready = [replica for replica in turn if replica.out_until <= now]
        chosen = ready[0] if ready else min(turn, key=lambda replica: replica.out_until)
        self._turn = (self._all.index(chosen) + 1) % len(self._all)
        return chosen

    def any_ready(self, now: float) -> bool:
        """Whether one is not left out."""
        return any(replica.out_until <= now for replica in self._all)

    def failed(self, replica: Replica, now: float, retry_after_s: float = 0.0) -> None:
        """Leave it out, for as long as it asked for at least."""
        pause = min(_FIRST_PAUSE_S * 2.0**replica.failures, _LONGEST_PAUSE_S)
        replica.failures = min(replica.failures + 1, 16)
        replica.out_until = now + max(pause, retry_after_s)

    def answered(self, replica: Replica) -> None:
        """It is well again."""
        replica.failures, replica.out_until = 0, 0.0
