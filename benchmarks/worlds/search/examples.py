"""Generate episodes for the search policy to learn from, each in its own world, with deliberate mistakes.

The facts of an episode are invented as it proceeds, so that only copying from the passages can be
learned. Observations come from the real `SearchEpisode`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from prompt_coevo.retrieval.agent.episode import SearchEpisode
from prompt_coevo.retrieval.retriever import Hit
from worlds.search.world import (
    ENTITIES,
    KIND_OF,
    LEADS_TO,
    OPENINGS,
    Fact,
    Kind,
    SearchQuestion,
    relations_of,
)

FILLERS: Final = ("please", "think", "first", "and", "then", "every", "question", "carefully")
TAG_PAIRS: Final = (
    "<think> </think>",
    "<search> query </search>",
    "<information> </information>",
    "<answer> name </answer>",
)


@dataclass(frozen=True)
class Habits:
    """The rates of the policy's mistakes."""

    guesses: float = 0.12
    """Answers at once with any name."""
    asks_wrong: float = 0.2
    """Asks for something else."""
    stops_early: float = 0.35
    """Takes the first of two values for the answer."""
    misreads: float = 0.1
    """Takes the value of another passage."""
    rambles: float = 0.04
    """Writes nothing valid in its first turn."""


ADVICE: Final = {
    "always": {"guesses": 0.01},
    "exactly": {"asks_wrong": 0.03},
    "twice": {"stops_early": 0.06},
}
"""Words in an instruction that help the policy, and the habit that each changes."""

FIRST_INSTRUCTION: Final = (
    "please first think <think> </think> then <search> query </search> "
    "and <information> </information> then <answer> name </answer>"
)


@dataclass(frozen=True)
class Part:
    """A piece of an example; the model learns to write its own."""

    text: str
    own: bool


def instruction(rng: np.random.Generator) -> str:
    """Return filler words in any order, tags, and sometimes advice."""
    words = [*rng.choice(FILLERS, rng.integers(0, 7))]
    words += [pair for pair in TAG_PAIRS if rng.random() < 0.5]
    words += [word for word in ADVICE if rng.random() < 0.4]
    return " ".join(words[place] for place in rng.permutation(len(words)))


def habits_under(text: str) -> Habits:
    """Return the habits of a policy that reads this instruction."""
    words = text.split()
    changes = [change for word, change in ADVICE.items() if word in words]
    return replace(Habits(), **{name: rate for change in changes for name, rate in change.items()})


def question(rng: np.random.Generator) -> SearchQuestion:
    """Return a question with one or two hops and an invented answer."""
    kind: Kind = "person" if rng.random() < 0.6 else "town"
    entity = _entity(kind, rng)
    relations: list[str] = []
    for _ in range(int(rng.integers(1, 3))):
        relations.append(str(rng.choice(relations_of(kind))))
        kind = LEADS_TO[relations[-1]]
    return SearchQuestion(entity, tuple(relations), _entity(kind, rng))


class ExampleWriter:
    """Write one episode: the policy's texts and its observations."""

    def __init__(self, asked: SearchQuestion, habits: Habits, rng: np.random.Generator) -> None:
        self._asked = asked
        self._habits = habits
        self._rng = rng
        self._episode = SearchEpisode(max_turns=8)
        self._parts: list[Part] = []
        self._thought = ""

    def write(self) -> list[Part]:
        """Return the parts after the prompt, the policy's and the observations in turn."""
        if self._chance(self._habits.rambles):
            self._ramble()
        if self._chance(self._habits.guesses):
            self._say(
                f"<answer> {_entity(LEADS_TO[self._asked.relations[-1]], self._rng)} </answer>"
            )
            return self._parts
        entity = self._asked.entity
        for hop, relation in enumerate(self._asked.relations):
            value = self._asked.answer
            if hop + 1 < self._asked.hops:
                value = _entity(LEADS_TO[relation], self._rng)
            entity = self._look_up(Fact(relation, entity, value))
            if hop + 1 < self._asked.hops and self._chance(self._habits.stops_early):
                break
        self._say(f"{self._thought} <answer> {entity} </answer>")
        return self._parts

    def _look_up(self, fact: Fact) -> str:
        """Search until the passage is found, at most twice; return what the policy reads."""
        wrong = self._chance(self._habits.asks_wrong)
        found = self._search(self._wrong(fact) if wrong else fact, fact, self._thought)
        if wrong and not _holds(found, fact):
            found = self._search(fact, fact, "<think> not found </think>")
        read = fact
        if self._chance(self._habits.misreads):
            read = found[self._rng.integers(len(found))]
        self._thought = f"<think> the {read.relation} of {read.entity} is {read.value} </think>"
        return read.value

    def _search(self, query: Fact, wanted: Fact, thought: str) -> list[Fact]:
        self._say(f"{thought} <search> {query.relation} of {query.entity} </search>".strip())
        found = self._results(query, wanted)
        hits = [
            Hit(str(rank), fact.contents(str(self._rng.choice(OPENINGS))), 1.0, rank)
            for rank, fact in enumerate(found, start=1)
        ]
        self._parts.append(Part(self._episode.observe(hits), own=False))
        return found

    def _ramble(self) -> None:
        self._say("<think> not found </think> <end>")
        self._parts.append(Part(self._episode.observe(), own=False))

    def _say(self, text: str) -> None:
        self._episode.feed(text)
        self._parts.append(Part(text, own=True))

    def _results(self, query: Fact, wanted: Fact) -> list[Fact]:
        """Return what BM25 finds: the passage in question, others about the entity, others that name it."""
        first = wanted if _same_key(query, wanted) else query
        others = [self._neighbour(query) for _ in range(6)]
        results = [first]
        for other in others:
            if len(results) < 3 and not any(_same_key(other, one) for one in [*results, wanted]):
                results.append(other)
        if self._chance(0.25):
            results = [results[place] for place in self._rng.permutation(len(results))]
        return results

    def _neighbour(self, fact: Fact) -> Fact:
        kind = KIND_OF[fact.entity]
        if self._chance(0.6):
            relation = str(self._rng.choice(relations_of(kind)))
            return Fact(relation, fact.entity, _entity(LEADS_TO[relation], self._rng))
        entity = _entity(kind, self._rng)
        leads_here = LEADS_TO[fact.relation] == kind
        value = fact.entity if leads_here else _entity(LEADS_TO[fact.relation], self._rng)
        return Fact(fact.relation, entity, value)

    def _wrong(self, fact: Fact) -> Fact:
        """Return another question: about another relation, or another entity."""
        kind = KIND_OF[fact.entity]
        if self._chance(0.5):
            relation = str(self._rng.choice(relations_of(kind)))
            return Fact(relation, fact.entity, _entity(LEADS_TO[relation], self._rng))
        return Fact(
            fact.relation, _entity(kind, self._rng), _entity(LEADS_TO[fact.relation], self._rng)
        )

    def _chance(self, rate: float) -> bool:
        return bool(self._rng.random() < rate)


def _same_key(one: Fact, other: Fact) -> bool:
    return (one.relation, one.entity) == (other.relation, other.entity)


def _holds(found: Sequence[Fact], wanted: Fact) -> bool:
    return any(_same_key(one, wanted) for one in found)


def _entity(kind: Kind, rng: np.random.Generator) -> str:
    return ENTITIES[kind][rng.integers(len(ENTITIES[kind]))]
