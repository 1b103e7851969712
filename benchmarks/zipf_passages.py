"""Generate passages of 103 words, drawn by Zipf's law as in real texts: nearly all words are shared.

None of the words is a stop word, so that all are searched for. Of WORDS words the r-th most frequent is
drawn in proportion to 1 / (r + OFFSET). A passage depends only on its row and the seed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

WORDS, OFFSET, LENGTH, CHUNK = 200_000, 2.7, 103, 4096

_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "st")
_SYLLABLES = ["".join(pair) for pair in product(_ONSETS, "aeiou")]


def vocabulary() -> list[str]:
    """Return the words, the most frequent first; frequent ones are not shorter."""
    parts = product(_SYLLABLES, _SYLLABLES, _SYLLABLES)
    words = ["".join(part) for part in parts]
    order = np.random.default_rng(7).permutation(len(words))[:WORDS]
    return [words[number] for number in order.tolist()]


def drawn(count: int, length: int, seed: int, first: int = 0) -> Iterator[npt.NDArray[np.int64]]:
    """Yield ranks of words, a row of `length` for each of `count` texts from number `first` on."""
    cumulated = np.cumsum(1 / (np.arange(WORDS) + OFFSET))
    for chunk in range(first // CHUNK, -(-(first + count) // CHUNK)):
        rng = np.random.default_rng([seed, chunk])
        ranks = np.searchsorted(cumulated, rng.random((CHUNK, length)) * cumulated[-1])
        start = chunk * CHUNK
        yield ranks[max(first - start, 0) : first + count - start].astype(np.int64)


def write_zipf_corpus(path: Path, count: int, length: int = LENGTH) -> Path:
    """Write the passages to a file, one JSON object a line; the ids are "0", "1" and so on."""
    words = np.array(vocabulary(), dtype=object)
    row = 0
    with path.open("w", encoding="utf-8") as file:
        for ranks in drawn(count, length, seed=1):
            for found in words[ranks].tolist():
                title, text = " ".join(found[:3]), " ".join(found[3:])
                file.write(json.dumps({"id": str(row), "contents": f'"{title}"\n{text}'}) + "\n")
                row += 1
    return path


def zipf_queries(count: int, length: int) -> list[str]:
    """Return texts by the same law that are not in the corpus."""
    words = np.array(vocabulary(), dtype=object)
    texts = (" ".join(found) for ranks in drawn(count, length, 2) for found in words[ranks])
    return list(texts)
