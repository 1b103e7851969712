"""Check by simulation and by hand that intervals have the coverage they claim."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from intervals import difference, estimate, scores


def runs(table: Any, draw: int = 0, kind: str = "hard") -> list[dict[str, Any]]:
    """Build one run per row, with one word per column."""
    return [
        {"draw": draw, "seed": seed, "words": {f"w{n}": [kind, x, 0.0] for n, x in enumerate(row)}}
        for seed, row in enumerate(table)
    ]


def test_the_mean_is_over_words_seeds_and_draws() -> None:
    found = estimate(scores([*runs([[1, 0], [1, 1]]), *runs([[0, 0]] * 2, 1)], "hard", 1))
    assert found.mean == pytest.approx((0.75 + 0) / 2)
    assert found.runs == 4


def test_words_of_another_kind_do_not_count() -> None:
    assert estimate(scores(runs([[1, 0]] * 2, kind="easy"), "all", 1)).mean == 0.5
    mixed = [{"draw": 0, "seed": 0, "words": {"a": ["hard", 1, 0], "b": ["easy", 0, 0]}}]
    assert estimate(scores(mixed, "hard", 1)).mean == 1


def test_a_single_run_has_no_interval() -> None:
    found = estimate(scores(runs([[1, 0]]), "hard", 1))
    assert (found.low, found.high) == (None, None)


def test_what_never_varies_has_an_interval_of_no_width() -> None:
    found = estimate(scores(runs([[1, 1], [1, 1]]), "hard", 1))
    assert (found.low, found.high) == (1, 1)


def test_few_words_make_a_wide_interval_however_many_the_seeds() -> None:
    """Two of four words are always learned; ten seeds do not make that more certain."""
    found = estimate(scores(runs([[1, 1, 0, 0]] * 10), "hard", 1))
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 0
    assert found.high >= 1


def test_few_seeds_make_a_wide_interval_however_many_the_words() -> None:
    base = np.array([[0.2], [0.5], [0.8]])
    found = estimate(scores(runs(np.repeat(base, 40, axis=1)), "hard", 1))
    assert found.low is not None
    assert found.low < 0  # three seeds that differ so: Student's interval of two degrees of freedom


def test_differences_are_paired() -> None:
    """Every seed is one tenth better, whatever its luck."""
    base = np.random.default_rng(0).random((5, 8))
    found = difference(runs(base + 0.1), runs(base), "hard", 1)
    assert found is not None
    assert found.low == pytest.approx(0.1)
    assert found.high == pytest.approx(0.1)


def test_runs_without_a_partner_do_not_count() -> None:
    found = difference(runs([[1.0], [1.0], [0.0]]), runs([[0.0], [0.0]]), "hard", 1)
    assert found is not None
    assert found.mean == 1
    assert found.runs == 2
    assert difference(runs([[1.0]]), runs([[1.0]], draw=1), "hard", 1) is None


@pytest.mark.parametrize(
    ("seeds", "words", "by_seed", "by_word", "by_both"),
    [
        (10, 24, 0.1, 0.1, 0.1),
        (2, 84, 0.1, 0.1, 0.1),
        (2, 84, 0.02, 0.3, 0.2),
        (3, 24, 0.1, 0.1, 0.1),
        (3, 24, 0.1, 0.02, 0.1),
        (3, 24, 0.1, 0.02, 0.02),
        (3, 8, 0.1, 0.02, 0.1),
    ],
)
def test_the_interval_holds_the_truth_about_as_often_as_it_says(
    seeds: int, words: int, by_seed: float, by_word: float, by_both: float
) -> None:
    """With two or three seeds, coverage is at least nine in ten; a 95 % interval covers 190 of 200."""
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        table = 0.5 + by_word * rng.normal(size=(1, words)) + by_seed * rng.normal(size=(seeds, 1))
        table = table + by_both * rng.normal(size=(seeds, words))
        found = estimate(scores(runs(table), "hard", 1))
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.5 <= found.high
    assert held >= 178
