"""Measure how many words per CPU second each analyzer finds, on invented passages of Zipf's law.

    python benchmarks/retrieval_analyzers.py [--passages N]

The first pass begins with nothing known, as a build does; in the second all words are known.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from helpers.passages import passages  # noqa: E402
from prompt_coevo.retrieval.bm25 import analyzers  # noqa: E402

ANALYZERS: dict[str, Callable[[], Callable[[str], list[str]]]] = {
    "english": lambda: analyzers.english().words,
    "lucene": lambda: analyzers.lucene().words,
    "unicode": lambda: analyzers.unicode().words,
    "snowball, german": lambda: analyzers.snowball("german").words,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=20_000)
    texts = [passage["contents"] for passage in passages(parser.parse_args().passages)]
    count = sum(len(text.split()) for text in texts)
    print(f"{len(texts)} passages, {count} words; words a CPU second, first pass / second pass")
    for name, make in ANALYZERS.items():
        words = make()
        rates = []
        for _ in range(2):
            started = time.process_time()
            for text in texts:
                words(text)
            rates.append(count / (time.process_time() - started))
        print(f"{name:20} {rates[0]:12,.0f} {rates[1]:12,.0f}")


if __name__ == "__main__":
    main()
