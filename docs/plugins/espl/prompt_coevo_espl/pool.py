"""Keep the live prompts with their ratings, oldest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from prompt_coevo import Candidate
from prompt_coevo_espl.ratings import Rating, after_match


class Pool:
    """A pool of at most `size` prompts."""

    def __init__(self, first: Candidate, size: int) -> None:
        self._size = size
        self._members = {first.id: first}
        self._ratings = {first.id: Rating()}

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    @property
    def members(self) -> tuple[Candidate, ...]:
        return tuple(self._members.values())

    def member(self, name: str) -> Candidate:
        """Return the prompt with this id. Raises KeyError."""
        return self._members[name]

    def rating(self, name: str) -> Rating:
        """Return the prompt's rating. Raises KeyError."""
        return self._ratings[name]

    @property
    def best(self) -> Candidate:
        """Return the surely good prompt: the highest lower bound, the older one of two."""
        return max(self.members, key=lambda member: self.rating(member.id).lower)

    def by_bounds(self, count: int) -> list[Candidate]:
        """Return at most `count`: the best, then those that may be better, the newest one among them."""
        best, newest = self.best, self.members[-1]
        others = [member for member in self.members if member not in (best, newest)]
        others.sort(key=lambda member: -self.rating(member.id).upper)
        return list({one.id: one for one in (best, newest, *others)}.values())[:count]

    def by_draw(self, count: int, rng: np.random.Generator) -> list[Candidate]:
        """Return at most `count`: those with the highest draws from their ratings."""
        ratings = [self.rating(member.id) for member in self.members]
        draws = rng.normal([one.mu for one in ratings], [one.sigma for one in ratings])
        return [self.members[int(place)] for place in np.argsort(-draws, kind="stable")[:count]]

    def match(self, scores: Mapping[str, float], tie: float) -> bool:
        """Rate the prompts by one match, ignoring removed ones. Return whether it said anything."""
        names = [name for name in scores if name in self]
        if len(names) < 2:
            return False
        before = [self.rating(name) for name in names]
        after = after_match(before, [scores[name] for name in names], tie)
        self._ratings.update(zip(names, after, strict=True))
        return after != before

    def add(self, child: Candidate, rating: Rating) -> list[Candidate]:
        """Add a newcomer. Return the member removed for it: the lowest upper bound, never the best."""
        removed = []
        if len(self) >= self._size:
            best = self.best
            rest = [member for member in self.members if member is not best]
            removed.append(min(rest, key=lambda member: self.rating(member.id).upper))
            del self._members[removed[0].id], self._ratings[removed[0].id]
        self._members[child.id] = child
        self._ratings[child.id] = rating
        return removed

    def to_json(self) -> list[dict[str, Any]]:
        return [
            {"prompt": member.to_json(), "mu": rating.mu, "sigma": rating.sigma}
            for member in self.members
            for rating in (self.rating(member.id),)
        ]

    def load(self, state: Sequence[Mapping[str, Any]]) -> None:
        members = [Candidate.from_json(one["prompt"]) for one in state]
        self._members = {member.id: member for member in members}
        self._ratings = {
            member.id: Rating(one["mu"], one["sigma"])
            for member, one in zip(members, state, strict=True)
        }
