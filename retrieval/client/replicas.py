"""Which of several equal servers to ask."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from prompt_coevo.retrieval.errors import ReplicasDiffer
from prompt_coevo.retrieval.retriever import shown

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0


@dataclass(eq=False, slots=True)
class Replica:
    """A server; `out_until` is when it is asked again after a failure, `fingerprint` what it told last."""

    url: str
    failures: int = 0
    out_until: float = 0.0
    fingerprint: str | None = None


class Difference(NamedTuple):
    """A server searches something else than the others; `is_news` if it was not known yet."""

    sentence: str
    is_news: bool


class Replicas:
    """Takes turns. One that failed is left out for a while, for longer each time.

    Times are those of any one clock, in seconds.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._all = [Replica(url) for url in urls]
        self._agreed: Replica | None = None
        self._turn = random.randrange(len(self._all))  # clients should not all begin with the first

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Replica]:
        return iter(self._all)

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

    def agree(self, told: Sequence[tuple[Replica, str | None]]) -> None:
        """What they search, as far as they told. Raises ReplicasDiffer."""
        for replica, fingerprint in told:
            if (difference := self.tells(replica, fingerprint)) is not None:
                raise ReplicasDiffer(
                    f"{difference.sentence}; give all of them the same index, or name one server alone"
                )

    def tells(self, replica: Replica, fingerprint: str | None) -> Difference | None:
        """One of several says what it searches: the same as the others, or something else.

        If all servers have come to search something else, that is agreed upon.
        """
        if not fingerprint or len(self) == 1:
            return None
        is_news = replica.fingerprint != fingerprint
        replica.fingerprint = fingerprint
        if self._agreed is None or all(one.fingerprint == fingerprint for one in self._all):
            self._agreed = replace(replica)
        if fingerprint == self._agreed.fingerprint:
            return None
        return Difference(
            "the retrieval servers do not search the same index: "
            f"{self._agreed.url} has the fingerprint {shown(self._agreed.fingerprint)} and "
            f"{replica.url} has {shown(fingerprint)}",
            is_news,
        )

    def leave_out(self, replica: Replica, now: float) -> None:
        """It does not belong to the others; it may come back with their index."""
        self.failed(replica, now, _LONGEST_PAUSE_S)

    def answered(self, replica: Replica) -> None:
        """It is well again."""
        replica.failures, replica.out_until = 0, 0.0
