"""The population of instructions and their weights: INSPO section 3.1, eqs. 4 and 6.

Deviations from Algorithm 1, where the paper is silent or spoils its own result: instructions that were
never sampled are not pruned (switchable); parents keep their windows through an evolution; a child has a
prior weight until its first window entry.
"""

from __future__ import annotations

import bisect
import math
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import TypedDict

from prompt_coevo.errors import SettingsError
from prompt_coevo.lines import JSON
from prompt_coevo.types import Candidate


class Member(TypedDict):
    """A saved instruction with its window and its weight before the first window entry."""

    instruction: dict[str, JSON]
    window: list[float]
    prior: float


class Population:
    """Instructions, oldest first, each with a window of its mean rewards in recent steps.

    `temperature` is `τ_s`, `window` is `n`, `parents` is `N_parent`. Raises SettingsError without any
    instruction, or if one occurs twice.
    """

    def __init__(
        self,
        instructions: Iterable[Candidate],
        *,
        temperature: float = 0.2,
        window: int = 5,
        parents: int = 1,
        prune_unsampled: bool = False,
    ) -> None:
        self._temperature = temperature
        self._window = window
        self._parents = parents
        self._prune_unsampled = prune_unsampled
        self._members: dict[str, Candidate] = {}
        self._windows: dict[str, deque[float]] = {}
        self._priors: dict[str, float] = {}
        self._shares: list[float] | None = None
        for instruction in instructions:
            self.add(instruction)
        if not self._members:
            raise SettingsError("a population needs at least one instruction")

    @property
    def members(self) -> tuple[Candidate, ...]:
        """All instructions, oldest first."""
        return tuple(self._members.values())

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, instruction_id: object) -> bool:
        return instruction_id in self._members

    def seen(self, instruction_id: str) -> bool:
        """Return True if the instruction has a window entry."""
        return bool(self._windows[instruction_id])

    def weight(self, instruction_id: str) -> float:
        """Return `w_j`: the mean of the window (eq. 6), or the prior while the window is empty."""
        entries = self._windows[instruction_id]
        return math.fsum(entries) / len(entries) if entries else self._priors[instruction_id]

    def probabilities(self) -> dict[str, float]:
        """Return `p_j = softmax(w_j / τ_s)` (eq. 4) by instruction id, oldest first."""
        logits = {name: weight / self._temperature for name, weight in self.weights().items()}
        highest = max(logits.values())
        terms = {name: math.exp(logit - highest) for name, logit in logits.items()}
        total = math.fsum(terms.values())
        return {name: term / total for name, term in terms.items()}

    def draw(self, point: float) -> Candidate:
        """Return the instruction at a random point in [0, 1), on which each takes up a length of `p_j`."""
        if self._shares is None:
            self._shares = list(accumulate(self.probabilities().values()))
        place = min(bisect.bisect(self._shares, point), len(self) - 1)
        return self.members[place]

    def weights(self) -> dict[str, float]:
        """Return `w_j` of all instructions by id, oldest first."""
        return {name: self.weight(name) for name in self._members}

    def observe(self, means: Mapping[str, float]) -> None:
        """Add one step's mean reward of every instruction that was sampled in it (eq. 6).

        Each mean is one window entry; instructions that were not sampled keep their windows. Ids no longer
        in the population and values that are not finite are ignored.
        """
        self._shares = None
        for name, mean in means.items():
            if name in self._windows and math.isfinite(mean):
                self._windows[name].append(mean)

    def prune(self) -> list[Candidate]:
        """Drop the worse half (Algorithm 1, lines 11 and 12) and return it.

        Drops the `floor(|P| / 2)` instructions of the lowest weight, but leaves at least `N_parent`, and
        spares those that were never sampled. On a tie the older one stays.
        """
        kept = max(len(self) - len(self) // 2, self._parents)
        return [
            self._remove(name)
            for name in self._ranked()[kept:]
            if self._prune_unsampled or self.seen(name)
        ]

    def parents(self) -> list[Candidate]:
        """Return the top `N_parent` by weight (Algorithm 1, line 17); on a tie the older one.

        Measured instructions come before those never measured, even if their rewards are negative.
        """
        ranked = sorted(self._ranked(), key=lambda name: not self._measured(name))
        return [self._members[name] for name in ranked[: self._parents]]

    def best(self) -> Candidate | None:
        """Return `I*`, the highest weight among those with a window entry; None if there is none."""
        return next((self._members[name] for name in self._ranked() if self.seen(name)), None)

    def add(self, instruction: Candidate, prior: float = 0.0) -> None:
        """Add an instruction that weighs `prior` until its first window entry."""
        if instruction.id in self._members:
            raise SettingsError(
                f"an instruction is twice in the population: {instruction.text!r}; leave one out"
            )
        self._shares = None
        self._members[instruction.id] = instruction
        self._windows[instruction.id] = deque(maxlen=self._window)
        self._priors[instruction.id] = prior

    def keep_only(self, instruction_ids: Iterable[str]) -> list[Candidate]:
        """Drop all others and return them."""
        kept = set(instruction_ids)
        return [self._remove(name) for name in list(self._members) if name not in kept]

    def to_json(self) -> list[Member]:
        return [
            {
                "instruction": member.to_json(),
                "window": list(self._windows[name]),
                "prior": self._priors[name],
            }
            for name, member in self._members.items()
        ]

    def load(self, members: Iterable[Member]) -> None:
        """Restore the population that `to_json` returned."""
        self._members.clear()
        self._windows.clear()
        self._priors.clear()
        for member in members:
            instruction = Candidate.from_json(member["instruction"])
            self.add(instruction, member["prior"])
            self._windows[instruction.id].extend(member["window"])
        self._shares = None

    def _measured(self, name: str) -> bool:
        """Return True if the weight comes from rewards, of training or of a verification."""
        return self.seen(name) or self._priors[name] != 0.0

    def _ranked(self) -> list[str]:
        """Return the ids by falling weight, equal ones by age."""
        return sorted(self._members, key=lambda name: -self.weight(name))

    def _remove(self, name: str) -> Candidate:
        self._shares = None
        del self._windows[name], self._priors[name]
        return self._members.pop(name)
