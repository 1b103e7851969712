"""Generate an encyclopedia of any size in the Search-R1 form, and questions with one right passage.

A passage depends on its row and the seed alone. Word frequencies follow Zipf's law, and most passages
have a word that no other has, so that an index grows as it does on real text.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import accumulate, product
from pathlib import Path
from typing import NamedTuple

_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "st")
_SYLLABLES = [onset + vowel for onset, vowel in product(_ONSETS, "aeiou")]
_ENDINGS = ("n", "r", "s", "l")
_GRAMMAR = "the of and in to a was is for on as by with from at his her its which also"
_ROLES = ("painter", "miner", "singer", "farmer", "judge", "sailor", "poet", "baker", "nurse")


def _words(endings: tuple[str, ...], count: int) -> list[str]:
    parts = product(_SYLLABLES, _SYLLABLES, endings)
    words = ["".join(part) for part in parts]
    random.Random(len(words) + count).shuffle(words)
    return words[:count]


_PLACES = [word.title() for word in _words(("burg", "ville", "mouth"), 800)]
_FIRST_NAMES = [word.title() for word in _words(("o", "ia"), 400)]
_SURNAMES = [word.title() for word in _words(("ski", "dal", "sen"), 15_000)]
_VOCABULARY = _GRAMMAR.split() + _words(_ENDINGS, 20_000)
_FREQUENCIES = list(accumulate(1 / (rank + 3) for rank in range(len(_VOCABULARY))))


_RANKS = {word: rank for rank, word in enumerate(_VOCABULARY)}


class _Entry(NamedTuple):
    title: str
    role: str
    place: str
    work: str
    words: list[str]


def _entry(row: int, seed: int) -> _Entry:
    rng = random.Random((seed << 40) + row)
    return _Entry(
        f"{rng.choice(_FIRST_NAMES)} {rng.choice(_SURNAMES)}",
        rng.choice(_ROLES),
        rng.choice(_PLACES),
        "".join(rng.choices(_SYLLABLES, k=4)),
        rng.choices(_VOCABULARY, cum_weights=_FREQUENCIES, k=rng.randint(30, 70)),
    )


def passages(count: int, seed: int = 0) -> Iterator[dict[str, str]]:
    """Yield passages of about 65 words, with the ids "0", "1" and so on."""
    for row in range(count):
        title, role, place, work, words = _entry(row, seed)
        half = len(words) // 2
        text = (
            f"{title} was a {role} from {place}. {' '.join(words[:half]).capitalize()}. "
            f"The best known work is {work}. {' '.join(words[half:]).capitalize()}."
        )
        yield {"id": str(row), "contents": f'"{title}"\n{text}'}


def queries(count: int, of: int, seed: int = 0) -> list[tuple[str, str]]:
    """Yield questions about `count` of the first `of` passages, each with the id of the right passage.

    A third asks for the person, a third quotes rare words, a third names the work.
    """
    rng = random.Random(seed)
    return [_query(number, rng.randrange(of), seed) for number in range(count)]


def _query(number: int, row: int, seed: int) -> tuple[str, str]:
    title, role, place, work, words = _entry(row, seed)
    surname = title.split()[1]
    rare = sorted(set(words), key=_RANKS.__getitem__)[-3:]
    forms = (
        f"who was the {role} {surname} from {place}",
        f"which {role} is known for {' and '.join(rare)}?",
        f"In which town was the creator of {work} born",
    )
    return forms[number % len(forms)], str(row)


def write_corpus(path: Path, count: int, seed: int = 0) -> Path:
    """Write the passages to a file, one JSON object a line."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(passage) + "\n" for passage in passages(count, seed))
    return path
