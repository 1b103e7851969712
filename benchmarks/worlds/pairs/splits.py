"""Split training and held-out questions: disjoint by construction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prompt_coevo.demo.splits import distinct
from prompt_coevo.rng import counter_rng
from worlds.pairs.world import WORDS, Task, World

_HELD_OUT_PAIRS = 0.25
_KIND_WEIGHT = {"easy": 0.45, "medium": 0.2, "hard": 0.35}
_HARD_WORDS_USED = 4
_SEEN_LENGTHS = (4, 5)
_LONGER = (6,)


@dataclass(frozen=True)
class Splits:
    """Questions to train on, and three sets that share none of them.

    `same`: new lists for word pairs that are trained on; `unseen_pairs`: pairs that never occur in
    training; `longer`: trained pairs, lists longer than any trained one.
    """

    train: tuple[Task, ...]
    same: tuple[Task, ...]
    unseen_pairs: tuple[Task, ...]
    longer: tuple[Task, ...]


def make_splits(world: World, seed: int, train: int = 512, held_out: int = 512) -> Splits:
    """Draw the sets. The seed changes the training questions; the held-out ones stay the same."""
    seen, unseen = _split_pairs(world)
    same = _draw(world, seen, held_out, _SEEN_LENGTHS, "same", 0)
    return Splits(
        train=_draw(world, seen, train, _SEEN_LENGTHS, "train", seed, exclude=frozenset(same)),
        same=same,
        unseen_pairs=_draw(world, unseen, held_out // 2, _SEEN_LENGTHS, "unseen_pairs", 0),
        longer=_draw(world, seen, held_out // 2, _LONGER, "longer", 0),
    )


def _split_pairs(world: World) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    pairs = [(first, second) for first in WORDS for second in WORDS]
    counter_rng(world.seed, "demo/pairs").shuffle(pairs)
    held_out = int(len(pairs) * _HELD_OUT_PAIRS)
    return pairs[held_out:], pairs[:held_out]


def _draw(
    world: World,
    pairs: list[tuple[str, str]],
    count: int,
    lengths: tuple[int, ...],
    name: str,
    seed: int,
    exclude: frozenset[Task] = frozenset(),
) -> tuple[Task, ...]:
    """Draw `count` different questions, none of them in `exclude`."""
    rng = counter_rng(world.seed, f"demo/{name}", seed)
    weights = _word_weights(world)
    chances = np.array([weights[first] * weights[second] for first, second in pairs])
    chances /= chances.sum()

    def one() -> Task:
        words = pairs[rng.choice(len(pairs), p=chances)]
        return world.task(words, tuple(rng.integers(0, 10, size=rng.choice(lengths)).tolist()))

    return distinct(one, count, exclude)


def _word_weights(world: World) -> dict[str, float]:
    """Return how often a word is asked about, by kind; only four of the eight hard words are used."""
    used: dict[str, list[str]] = {kind: [] for kind in _KIND_WEIGHT}
    for word in WORDS:
        if world.kind[word] != "hard" or len(used["hard"]) < _HARD_WORDS_USED:
            used[world.kind[word]].append(word)
    return dict.fromkeys(WORDS, 0.0) | {
        word: _KIND_WEIGHT[kind] / len(words) for kind, words in used.items() for word in words
    }
