"""Check which questions are alike."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from prompt_coevo.algorithms.stream import likeness
from prompt_coevo.algorithms.stream.likeness import Unlike, Words
from prompt_coevo.types import Question

TEXTS = [
    "use dax on 3 1 4",
    "use dax and wug on 2 7 1",
    "use wug on 8 2 8",
    "use fep on 1 6",
    "entirely different words",
]


def plainly(texts: Sequence[str]) -> np.ndarray:
    """Compute the cosines directly from the definition."""
    documents = [set(re.findall(r"\w+", text.lower())) for text in texts]
    frequency = Counter(word for document in documents for word in document)
    idf = {
        word: math.log(len(texts) / count)
        for word, count in frequency.items()
        if 1 < count < len(texts)
    }
    rows = np.array([[idf[word] * (word in one) for word in sorted(idf)] for one in documents])
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return rows @ rows.T


def drawn_texts(count: int) -> list[str]:
    rng = np.random.default_rng(4)
    return [
        " ".join(f"w{word}" for word in np.minimum(rng.zipf(1.4, 12), 60)) for _ in range(count)
    ]


@pytest.mark.parametrize("texts", [TEXTS, drawn_texts(100)])
def test_the_cosine_of_tf_idf_vectors(texts: list[str]) -> None:
    words, expected = Words(texts), plainly(texts)
    for number in range(len(texts)):
        alike = words.near(number)
        assert (alike.numbers[0], alike.weights[0]) == (number, 1.0)
        others = dict(zip(alike.numbers[1:].tolist(), alike.weights[1:].tolist(), strict=True))
        assert others == pytest.approx(
            {
                other: weight
                for other, weight in enumerate(expected[number])
                if other != number and weight >= 0.2
            },
            abs=1e-4,
        )


def test_the_most_alike_come_first_and_equal_ones_by_number() -> None:
    alike = Words(["dax wug", "fep", "dax", "dax", "wug dax", "wug blick", "blick"]).near(0)
    assert alike.numbers.tolist()[:2] == [0, 4]
    assert np.all(np.diff(np.round(alike.weights, 5)) <= 0)
    assert alike.numbers.tolist().index(2) < alike.numbers.tolist().index(3)


def test_a_common_word_does_not_make_the_index_long() -> None:
    """A word in many questions is only partly listed; a rare word still finds all of its questions."""
    texts = [f"common {'pair' + str(n // 2)}" for n in range(6_000)] + ["other"]
    words = Words(texts)
    assert len(words._listed) < 6_000 + 3_000
    for number in (0, 1, 2_500, 5_999):
        assert words.near(number).numbers[1] == number ^ 1


def test_of_many_that_are_equally_alike_every_question_knows_its_neighbours() -> None:
    """Once all questions knew only the first 128, so most had no neighbour in common with any other."""
    count = 1_000
    alike = Words([f"family f{n % 2} n{n}" for n in range(count)])
    known = [set(alike.near(number).numbers.tolist()) for number in range(count)]
    for number in range(4, count - 4):
        assert {number - 2, number, number + 2} <= known[number]
        assert number in known[number + 2]


@pytest.mark.parametrize("texts", [["one"], ["", ""], ["same words", "same words"], ["a", "b"]])
def test_questions_without_a_word_in_common_are_alone(texts: list[str]) -> None:
    for number in range(len(texts)):
        assert Words(texts).near(number).numbers.tolist() == [number]


def test_none_is_like_itself_alone() -> None:
    assert Unlike().near(7).numbers.tolist() == [7]


@pytest.mark.parametrize("at_once", [1, 5, 20])
@pytest.mark.parametrize("most", [7, 1_000])
def test_late_questions_are_like_those_before_them(
    at_once: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late questions use the word weights from before they came, however many come at once."""
    monkeypatch.setattr(likeness, "_LATE", most)
    texts = drawn_texts(60)
    words = Words(texts[:40])
    late = [Question(str(n), f"{text} unheard{n}") for n, text in enumerate(texts[40:])]
    for start in range(0, 20, at_once):
        words.join(late[start : start + at_once])
        words.near(40 + start)
    idf = {}
    for word in set(" ".join(texts[:40]).split()):
        count = sum(word in text.split() for text in texts[:40])
        idf[word] = math.log(40 / count) if count > 1 else 0.0
    rows = np.array(
        [[idf[word] * (word in text.split()) for word in sorted(idf)] for text in texts]
    )
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    for number in range(60):
        alike = words.near(number)
        others = dict(zip(alike.numbers[1:].tolist(), alike.weights[1:].tolist(), strict=True))
        before = rows[: max(40, number)] @ rows[number]
        near = {n for n in range(number) if n < 40 or n >= number - most}
        expected = {
            n: one
            for n, one in enumerate(before)
            if one >= 0.2 and n != number and (number < 40 or n in near)
        }
        assert others == pytest.approx(expected, abs=1e-5)
