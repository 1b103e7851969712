"""Check words that occur together."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from prompt_coevo.algorithms.stream import shared_phrases as repeated
from prompt_coevo.algorithms.stream.shared_phrases import repetitions


def said(texts: Sequence[str]) -> dict[str, float]:
    numbers: dict[str, int] = {}
    rows = [
        [numbers.setdefault(word, len(numbers)) for word in dict.fromkeys(text.split())]
        for text in texts
    ]
    words = np.array([word for row in rows for word in row], dtype=np.int32)
    starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    found = repetitions(words, starts, np.bincount(words, minlength=len(numbers)))
    return dict(zip(numbers, found.tolist(), strict=True))


@pytest.mark.parametrize("count", [64, 1_000, 3_000])
def test_words_that_always_come_together_say_one_thing(count: int) -> None:
    texts = [
        f"{'a b c' if n % 2 else 'd e'} n{n} {'x' if n % 3 else 'y'} all" for n in range(count)
    ]
    found = said(texts)
    assert [found[word] for word in "abc"] == pytest.approx([3, 3, 3], abs=0.01)
    assert [found[word] for word in "de"] == pytest.approx([2, 2], abs=0.01)
    assert (found["x"], found["y"], found["all"], found["n0"]) == (1, 1, 1, 1)


def test_words_that_often_come_together_count_in_part() -> None:
    texts = ["a b"] * 45 + ["a"] * 5 + ["b"] * 5 + ["c"] * 45
    correlation = np.corrcoef([[word in text for text in texts] for word in "ab"])[0, 1]
    assert said(texts)["a"] == pytest.approx(1 + correlation**4, abs=1e-4)


@pytest.mark.parametrize("seed", [0, 1])
def test_words_that_come_independently_stand_for_themselves(seed: int) -> None:
    rng = random.Random(seed)
    texts = [" ".join(w for w in "abcdefghij" if rng.random() < 0.4) for _ in range(200)]
    assert set(said(texts).values()) == {1.0}


def test_rare_words_are_left_alone() -> None:
    """Rare words are kept because they show a question's kind."""
    assert said(["a b"] * 15 + ["c"] * 15)["a"] == 1  # together by chance, perhaps
    assert said(["a b"] * 49 + ["c"] * 951)["a"] == 1
    assert said(["a b"] * 51 + ["c"] * 949)["a"] == pytest.approx(2, abs=0.01)


def test_more_words_than_are_compared_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"a b c d e f g {'x y' if n % 2 else 'z'}" for n in range(80)] + ["other"] * 20
    expected = said(texts)
    monkeypatch.setattr(repeated, "_BLOCK", 3)
    assert said(texts) == pytest.approx(expected)
    assert expected["a"] > 6.9
    monkeypatch.setattr(repeated, "_MOST", 4)
    assert sorted(said(texts).values())[-4:] == pytest.approx([4] * 4, abs=0.01)


@pytest.mark.parametrize("texts", [[], [""], ["a"], ["a b"] * 40])
def test_questions_that_have_no_common_word(texts: list[str]) -> None:
    assert set(said(texts).values()) <= {1.0}
