"""Check tables and verdicts on invented runs."""

from __future__ import annotations

from typing import Any

import pytest
from tables import AREA, Claim, accuracy, claims, less, number, of_arm, share, table

LABELS = {"a": "Method A", "b": "Method B", "c": "Method C"}


def run(arm: str, seed: int, *right: float) -> dict[str, Any]:
    return {
        "world": "B",
        "arm": arm,
        "seed": seed,
        "draw": 0,
        "words": {f"w{n}": ["hard", one, one / 2] for n, one in enumerate(right)},
        "last": {"longer": [1, 4]} if arm == "a" else {},
        "calls": 1000 * seed,
    }


RUNS = [
    *(run("a", seed, 1.0, 0.9, 1.0, 0.8) for seed in range(3)),
    *(run("b", seed, 0.0, 0.1, 0.0, 0.0) for seed in range(3)),
]


def test_a_row_for_each_arm_that_has_runs() -> None:
    columns = {"hard": accuracy("hard"), "area": accuracy("hard", AREA), "calls": number("calls")}
    lines = table(RUNS, ["b", "a", "c"], LABELS, columns).splitlines()
    assert lines[0] == "| | hard | area | calls |"
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| Method B", "| Method A"]
    assert lines[3].startswith("| Method A | 0.93 [0.78, 1.00] | 0.46 [0.39, ")
    assert lines[3].endswith("| 1 000 |")


def test_an_arm_is_not_compared_with_itself() -> None:
    cell = less(of_arm(RUNS, "b"))
    assert cell(of_arm(RUNS, "b")) == ""
    assert cell(of_arm(RUNS, "a")).startswith("+0.90 [+0.7")


def test_a_set_that_was_not_scored_is_a_dash() -> None:
    assert share("longer")(of_arm(RUNS, "a")) == "0.25"
    assert share("longer")(of_arm(RUNS, "b")) == "–"


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        (Claim("a", "b"), "established"),
        (Claim("a", "b", by=0.3), "established, by more than 0.3"),
        (Claim("a", "b", by=0.95), "not established"),
        (Claim("b", "a"), "**the other way**"),
        (Claim("a", "a"), "not established"),
        (Claim("a", "c"), "not run"),
    ],
)
def test_a_verdict_follows_from_the_interval(claim: Claim, verdict: str) -> None:
    row = claims(RUNS, [claim], LABELS).splitlines()[-1]
    assert row.endswith(f"| {verdict} |")


def test_one_run_establishes_nothing() -> None:
    row = claims([run("a", 0, 1.0), run("b", 0, 0.0)], [Claim("a", "b")], LABELS)
    assert row.endswith("| 1 | +1.00 | too few runs |")
