"""Define a small world for search agents: facts about people and towns that only a search can find.

A fact is a relation, an entity and another entity: "the mother of bado is kelu". The facts are drawn
from the seed, so that no policy knows them before; each is one passage of the corpus, in Search-R1's
form. Questions ask for one fact ("what is the mother of bado ?") or for two in a row ("what is the
home of the mother of bado ?"), whose answer shares a passage with the first entity only by chance.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Final, Literal, TypeAlias

from prompt_coevo.rng import counter_rng

Kind: TypeAlias = Literal["person", "town"]
Split: TypeAlias = Literal["train", "test"]

ENTITIES: Final[dict[Kind, tuple[str, ...]]] = {
    "person": tuple(map("".join, product("bdgklm", "aiou", "dlnrt", "a"))),
    "town": tuple(map("".join, product("fhprst", "aeiou", ("xby", "ld", "rg"))))[:80],
}

RELATIONS: Final[dict[tuple[Kind, Kind], tuple[str, ...]]] = {
    ("person", "person"): ("mother", "teacher", "friend", "rival", "guide", "heir"),
    ("person", "town"): ("home", "birthplace", "refuge", "school", "harbour", "grave"),
    ("town", "person"): ("mayor", "founder", "poet", "saint", "judge", "smith"),
    ("town", "town"): ("twin", "market", "port", "neighbour", "fortress", "mill"),
}
"""The relations by the kinds of entity that they connect."""

KIND_OF: Final = {entity: kind for kind, names in ENTITIES.items() for entity in names}
LEADS_TO: Final = {relation: kinds[1] for kinds, names in RELATIONS.items() for relation in names}

OPENINGS: Final = ("records say", "we know", "people tell", "some write that")

_TEST_SHARE: Final = 0.25


@dataclass(frozen=True)
class Fact:
    """The fact that `relation` of `entity` is `value`."""

    relation: str
    entity: str
    value: str

    def contents(self, opening: str) -> str:
        """Return a passage's contents: the quoted title and a sentence."""
        return f'"{self.entity}"\n{opening} the {self.relation} of {self.entity} is {self.value} .'


@dataclass(frozen=True)
class SearchQuestion:
    """A question about `entity`: the first of `relations` applies to it, the next to that value."""

    entity: str
    relations: tuple[str, ...]
    answer: str

    @property
    def hops(self) -> int:
        return len(self.relations)

    @property
    def text(self) -> str:
        chain = " of ".join(f"the {relation}" for relation in reversed(self.relations))
        return f"what is {chain} of {self.entity} ?"


@dataclass(frozen=True)
class SearchWorld:
    """A world of 2400 facts, drawn from the seed."""

    seed: int = 0

    @cached_property
    def facts(self) -> dict[tuple[str, str], Fact]:
        """Return all facts by relation and entity."""
        rng = counter_rng(self.seed, "search-world/facts")
        found: dict[tuple[str, str], Fact] = {}
        for (start, end), relations in RELATIONS.items():
            for relation, entity in product(relations, ENTITIES[start]):
                others = [name for name in ENTITIES[end] if name != entity]
                found[relation, entity] = Fact(relation, entity, str(rng.choice(others)))
        return found

    def value(self, relation: str, entity: str) -> str:
        """Return the right answer to one fact. Raises KeyError if the relation does not fit the entity."""
        return self.facts[relation, entity].value

    def passages(self) -> Iterator[dict[str, str]]:
        """Yield the corpus in Search-R1's form, in an order that reveals nothing."""
        rng = counter_rng(self.seed, "search-world/passages")
        facts = list(self.facts.values())
        for number, place in enumerate(rng.permutation(len(facts))):
            opening = OPENINGS[rng.integers(len(OPENINGS))]
            yield {"id": str(number), "contents": facts[place].contents(opening)}

    def write_corpus(self, path: Path) -> None:
        """Write the corpus as jsonl."""
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(passage) + "\n" for passage in self.passages())

    def questions(
        self, count: int, *, split: Split = "train", seed: int = 0, hops: Sequence[int] = (1, 2)
    ) -> tuple[SearchQuestion, ...]:
        """Return different questions, as many with one hop as with two. No question is in both splits.

        Raises ValueError if there are not that many.
        """
        pools = [self._pool(hop, split) for hop in hops]
        shares = [(count + later) // len(pools) for later in range(len(pools))]
        if any(share > len(pool) for share, pool in zip(shares, pools, strict=True)):
            raise ValueError(
                f"there are {[len(pool) for pool in pools]} questions with {list(hops)} hops in the "
                f"{split} split, too few for {count}; ask for fewer"
            )
        rng = counter_rng(self.seed, f"search-world/{split}", seed)
        drawn = [
            pool[place]
            for pool, share in zip(pools, shares, strict=True)
            for place in rng.permutation(len(pool))[:share]
        ]
        return tuple(drawn[place] for place in rng.permutation(len(drawn)))

    def _pool(self, hops: int, split: Split) -> list[SearchQuestion]:
        """Return all questions of a split."""
        rng = counter_rng(self.seed, "search-world/split", hops)
        questions = self._one_hop() if hops == 1 else self._two_hops()
        tests = rng.random(len(questions)) < _TEST_SHARE
        return [
            one for one, test in zip(questions, tests, strict=True) if test == (split == "test")
        ]

    def _one_hop(self) -> list[SearchQuestion]:
        return [
            SearchQuestion(fact.entity, (fact.relation,), fact.value)
            for fact in self.facts.values()
        ]

    def _two_hops(self) -> list[SearchQuestion]:
        return [
            SearchQuestion(fact.entity, (fact.relation, relation), self.value(relation, fact.value))
            for fact in self.facts.values()
            for relation in relations_of(KIND_OF[fact.value])
        ]


def relations_of(kind: Kind) -> tuple[str, ...]:
    """Return the relations of an entity of this kind."""
    return tuple(
        relation for (start, _), names in RELATIONS.items() if start == kind for relation in names
    )
