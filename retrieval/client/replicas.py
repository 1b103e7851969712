"""Choice between several equal servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from prompt_coevo.jitter import JITTER
from prompt_coevo.redact import redact
from prompt_coevo.retrieval.errors import ReplicasDiffer
from prompt_coevo.retrieval.retriever import shown

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0


@dataclass(eq=False, slots=True)
class Replica:
    """A server. `out_until`: when it may be asked again after a failure; `fingerprint`: the last one it
    reported."""

    url: str
    failures: int = 0
    out_until: float = 0.0
    fingerprint: str | None = None

    @property
    def name(self) -> str:
        """Return the address as it may be shown."""
        return redact(self.url)


class Difference(NamedTuple):
    """A server searches another index than the others; `is_news` if this was not known yet."""

    sentence: str
    is_news: bool


class Replicas:
    """Takes turns between servers. A failed one is left out for a while, longer after each failure.

    Times are seconds of any one clock. `expected` is the fingerprint that all must have; None if it is not
    known.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._all = [Replica(url) for url in urls]
        self._agreed: Replica | None = None
        self.expected: str | None = None
        self._turn = self._first_turn()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Replica]:
        return iter(self._all)

    @property
    def names(self) -> list[str]:
        """Return the addresses without passwords."""
        return [replica.name for replica in self._all]

    def change(self, urls: Sequence[str]) -> None:
        """Replace the servers. There may be none for a while; `pick` needs one."""
        known = {replica.url: replica for replica in self._all}
        self._all = [known.get(url) or Replica(url) for url in urls]
        self._turn = self._first_turn()

    def _first_turn(self) -> int:
        """Draw the first server, so that not all clients begin with the same one."""
        return JITTER.randrange(len(self._all)) if self._all else 0

    def pick(self, now: float) -> Replica:
        """Return the next server in turn, or the one available soonest if all are left out."""
        turn = self._all[self._turn :] + self._all[: self._turn]
        ready = [replica for replica in turn if replica.out_until <= now]
        chosen = ready[0] if ready else min(turn, key=lambda replica: replica.out_until)
        self._turn = (self._all.index(chosen) + 1) % len(self._all)
        return chosen

    def any_ready(self, now: float) -> bool:
        """Return True if some server is not left out."""
        return any(replica.out_until <= now for replica in self._all)

    def failed(self, replica: Replica, now: float, retry_after_s: float = 0.0) -> None:
        """Leave the server out, at least for as long as it asked for."""
        pause = min(_FIRST_PAUSE_S * 2.0**replica.failures, _LONGEST_PAUSE_S)
        replica.failures = min(replica.failures + 1, 16)
        replica.out_until = now + max(pause, retry_after_s)

    def agree(self, told: Sequence[tuple[Replica, str | None]]) -> None:
        """Compare the reported fingerprints. Raises ReplicasDiffer."""
        for replica, fingerprint in told:
            if (difference := self.tells(replica, fingerprint)) is not None:
                raise ReplicasDiffer(
                    f"{difference.sentence}; give all of them the same index, or name one server alone"
                )

    def tells(self, replica: Replica, fingerprint: str | None) -> Difference | None:
        """Note the fingerprint that a server reports; return the difference from the others, if any.

        Once all servers report the same new fingerprint, it becomes the agreed one.
        """
        if not fingerprint or (len(self) == 1 and self.expected is None):
            return None
        is_news = replica.fingerprint != fingerprint
        replica.fingerprint = fingerprint
        if self.expected is not None:
            other = f"{replica.name} has the fingerprint {shown(fingerprint)}, not {self.expected}"
            return Difference(other, is_news) if fingerprint != self.expected else None
        if self._agreed is None or all(one.fingerprint == fingerprint for one in self._all):
            self._agreed = replace(replica)
        if fingerprint == self._agreed.fingerprint:
            return None
        return Difference(
            "the retrieval servers do not search the same index: "
            f"{self._agreed.name} has the fingerprint {shown(self._agreed.fingerprint)} and "
            f"{replica.name} has {shown(fingerprint)}",
            is_news,
        )

    def leave_out(self, replica: Replica, now: float) -> None:
        """Leave the server out because its index differs; it may come back with the agreed one."""
        self.failed(replica, now, _LONGEST_PAUSE_S)

    def answered(self, replica: Replica) -> None:
        """Mark the server as available."""
        replica.failures, replica.out_until = 0, 0.0
