"""Candidates on trial in training's own groups: `inspo.verify = "in_training"`.

This is not in the paper, which rolls candidates out while training waits. Here a share of the training
groups runs under a candidate or under its parent, a whole group under one instruction, and the rewards
that training gets anyway are the evidence.

The design is that of randomised complete blocks. The groups of a trial are numbered in the order in
which they are planned; so many consecutive ones are a block, whatever the rounds. In a block, at places
drawn at random, every candidate has one group, the parent has one, and the others are drawn from the
population as always. A candidate's group is compared with all groups of its block that ran under the
parent, of which there are more where the population draws it too. So both meet questions that were
drawn alike, under the same weights; where a block spans an update, chance decides who comes after it.
(Means over the whole trial would compare different weights with each other if some groups are lost, and
means over a round say nothing where a round has fewer groups than candidates.) What is compared are
groups and not rollouts, because rollouts of one question are alike.

Other questions than the child's are most of the noise: a policy that solves half of the questions always
and the others never has groups of 0 and 1, under whatever instruction. So the parent's mean is corrected
by how hard the questions of both were known to be before (`known_means.py`), as far as that explains
rewards within blocks: the usual adjustment by a covariate. Where no question was seen before, as in a first
epoch, there is nothing to correct by, and a verdict needs many more groups than a verification on the
same questions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import fsum
from typing import Any, NamedTuple

from prompt_coevo.algorithms.inspo.evolution import Evolution
from prompt_coevo.algorithms.inspo.handicap import Handicap
from prompt_coevo.algorithms.inspo.known_means import KnownMeans
from prompt_coevo.candidates.trials import Trial
from prompt_coevo.rng import counter_rng
from prompt_coevo.types import Candidate, Group


class _Outcome(NamedTuple):
    """A group under one instruction: its question, the mean reward, and of how many rollouts.

    `before` is what the question scored before, None if that is not known.
    """

    question_id: str
    mean: float
    rollouts: int
    before: float | None


@dataclass
class TrainingTrial:
    """A round of an evolution whose candidates are on trial; the first block begins with the next plan.

    `block` is the number of groups in a block. `updates_left` is how many weight updates it may still
    take.
    """

    evolution: Evolution
    parent: Candidate
    children: tuple[Candidate, ...]
    block: int
    updates_left: int
    _planned: int = 0
    _starts: dict[int, int] = field(default_factory=dict)
    """The number of a round's first group in the trial, by round."""
    _outcomes: dict[str, dict[int, _Outcome]] = field(default_factory=dict)
    """By instruction id and by the number of the group in the trial."""

    @classmethod
    def begin(
        cls,
        evolution: Evolution,
        parent: Candidate,
        children: Sequence[Candidate],
        share: float,
        updates: int,
    ) -> TrainingTrial:
        """`share` is that of candidates and parent together in the groups that training plans."""
        block = round((len(children) + 1) / share)
        return cls(evolution, parent, tuple(children), block, updates)

    def plan(self, seed: int, round: int, group: int) -> Candidate | None:
        """The instruction that this group tries; None if it is one for the population."""
        start = self._starts.setdefault(round, self._planned)
        number = start + group
        self._planned = max(self._planned, number + 1)
        counters = (self.evolution.number, self.evolution.round, number // self.block)
        place = _places(seed, *counters, self.block)[number % self.block]
        return (*self.children, self.parent)[place] if place <= len(self.children) else None

    def tries(self, instruction: Candidate) -> bool:
        """Whether this is a candidate on trial; its parent is not."""
        return instruction.id in {child.id for child in self.children}

    def observe(self, groups: Sequence[Group], known: KnownMeans) -> None:
        """Evidence, from rollouts that are fit to judge by and have no template.

        Groups that were planned before the trial are passed over.
        """
        judged = {instruction.id for instruction in (*self.children, self.parent)}
        for group in groups:
            where = group.rollouts[0].assignment
            if where.round not in self._starts:
                continue
            rewards: defaultdict[str, list[float]] = defaultdict(list)
            for rollout in group.bare.rollouts:
                instruction = rollout.assignment.instruction
                if rollout.fit and instruction is not None and instruction.id in judged:
                    rewards[instruction.id].append(rollout.reward)
            number = self._starts[where.round] + where.group
            for name, found in rewards.items():
                self._outcomes.setdefault(name, {})[number] = _Outcome(
                    group.question_id,
                    fsum(found) / len(found),
                    len(found),
                    known.get(group.question_id),
                )

    def has(self, rollouts: int) -> bool:
        """Whether there are so many rollouts to judge every candidate by."""
        return all(
            sum(own.rollouts for own, _ in self._compared(child)) >= rollouts
            for child in self.children
        )

    def results(self) -> list[Trial]:
        """Every candidate next to its parent: an entry for each of its groups that has a comparison.

        The parent's rewards in it are what it would have on the candidate's question, as far as that
        can be said.
        """
        handicap = Handicap(
            [
                (name, number // self.block, outcome.before, outcome.mean)
                for name, outcomes in sorted(self._outcomes.items())
                for number, outcome in sorted(outcomes.items())
            ]
        )
        return [self._result(child, handicap) for child in self.children]

    def to_json(self) -> dict[str, Any]:
        return {
            "evolution": self.evolution.to_json(),
            "parent": self.parent.to_json(),
            "children": [child.to_json() for child in self.children],
            "block": self.block,
            "updates_left": self.updates_left,
            "planned": self._planned,
            "starts": [list(entry) for entry in sorted(self._starts.items())],
            "outcomes": {
                name: [[number, *outcome] for number, outcome in sorted(outcomes.items())]
                for name, outcomes in self._outcomes.items()
            },
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> TrainingTrial:
        return cls(
            Evolution.from_json(state["evolution"]),
            Candidate.from_json(state["parent"]),
            tuple(Candidate.from_json(child) for child in state["children"]),
            state["block"],
            state["updates_left"],
            state["planned"],
            dict(state["starts"]),
            {
                name: {number: _Outcome(*outcome) for number, *outcome in outcomes}
                for name, outcomes in state["outcomes"].items()
            },
        )

    def _result(self, child: Candidate, handicap: Handicap) -> Trial:
        compared = list(self._compared(child))
        expected = [
            fsum(other.mean - handicap.of(other.before) for other in beside) / len(beside)
            + handicap.of(own.before)
            for own, beside in compared
        ]
        return Trial(
            self.parent,
            child,
            tuple(own.question_id for own, _ in compared),
            tuple(expected),
            tuple(own.mean for own, _ in compared),
        )

    def _compared(self, child: Candidate) -> Iterator[tuple[_Outcome, list[_Outcome]]]:
        """The groups of a candidate in the order of planning, each with its parent's in the block."""
        parents: defaultdict[int, list[_Outcome]] = defaultdict(list)
        for number, outcome in sorted(self._outcomes.get(self.parent.id, {}).items()):
            parents[number // self.block].append(outcome)
        for number, outcome in sorted(self._outcomes.get(child.id, {}).items()):
            if beside := parents.get(number // self.block):
                yield outcome, beside


@lru_cache(maxsize=8)
def _places(seed: int, evolution: int, round: int, block: int, size: int) -> tuple[int, ...]:
    """Who has which group of a block; kept because its groups are planned one by one."""
    drawn = counter_rng(seed, "inspo/trial", evolution, round, block).permutation(size)
    return tuple(int(place) for place in drawn)
