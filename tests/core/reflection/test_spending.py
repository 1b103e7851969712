from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompt_coevo.proposals import Usage
from prompt_coevo.reflection.spending import NOTHING, Spending
from prompt_coevo.settings.reflection import ReflectionSettings


def totals(**changes: float) -> dict[str, float]:
    return {**NOTHING, **changes}


def test_without_caps_everything_is_affordable() -> None:
    spending = Spending.from_settings(ReflectionSettings())
    much = totals(calls=10**9, usd=1e9)
    assert spending.calls_left(much) == float("inf")
    assert spending.refusal(much, Usage(10**9, 10**9, 1e9)) is None
    assert spending.events(totals(), totals(calls=10**9)) == []


@pytest.mark.parametrize(("done", "left"), [(0, 10), (7, 3), (10, 0), (12, 0)])
def test_the_number_of_calls_is_never_exceeded(done: int, left: int) -> None:
    spending = Spending({"max_calls": 10})
    assert spending.calls_left(totals(calls=done)) == left
    assert (spending.refusal(totals(calls=done)) is None) == (left > 0)


@pytest.mark.parametrize(
    ("limit", "most", "left"),
    [("max_total_tokens", Usage(30, 21), "50"), ("max_usd", Usage(usd=50.5), "50")],
)
def test_a_call_that_may_cost_more_than_is_left_cannot_start(
    limit: str, most: Usage, left: str
) -> None:
    spending = Spending({limit: 100})
    spent = totals(prompt_tokens=25, completion_tokens=25, usd=50.0)
    assert spending.refusal(spent) is None
    refusal = spending.refusal(spent, most)
    assert refusal is not None
    assert refusal.startswith(f"{left} is left of the budget reflection.{limit} = 100")
    assert spending.refusal(spent, Usage(30, 20, 50.0)) is None


@pytest.mark.parametrize(
    ("name", "limit", "below", "reached"),
    [
        (
            "max_total_tokens",
            100,
            {"prompt_tokens": 99},
            {"prompt_tokens": 60, "completion_tokens": 40},
        ),
        ("max_usd", 2.0, {"usd": 1.99}, {"usd": 2.0}),
    ],
)
def test_what_is_known_afterwards_stops_the_next_call(
    name: str, limit: float, below: dict[str, Any], reached: dict[str, Any]
) -> None:
    spending = Spending.from_settings(ReflectionSettings(**{name: limit}))
    assert spending.refusal(totals(**below)) is None
    refusal = f"the budget reflection.{name} = {limit:g} is spent"
    assert spending.refusal(totals(**reached)) == refusal


def test_each_mark_is_passed_once() -> None:
    spending = Spending({"max_calls": 10, "max_usd": 1.0})
    steps = [totals(calls=n, usd=n / 100) for n in (0, 7, 8, 9, 10, 10)]
    events = [
        [event.event for event in spending.events(before, after)]
        for before, after in pairwise(steps)
    ]
    assert events == [[], ["budget_warning"], [], ["budget_spent"], []]


def test_events_speak_plainly() -> None:
    spending = Spending({"max_usd": 1.0})
    warning, spent = spending.events(totals(), totals(usd=1.25))
    assert str(warning) == "1.25 of the budget reflection.max_usd = 1 is used"
    assert str(spent) == (
        "the budget reflection.max_usd = 1 is spent: evolution stops, training continues"
    )


@given(
    limit=st.integers(1, 50),
    batches=st.lists(st.integers(0, 20), max_size=30),
    done=st.integers(0, 60),
)
def test_no_series_of_batches_breaks_the_cap(limit: int, batches: list[int], done: int) -> None:
    spending, calls = Spending({"max_calls": limit}), done
    for wanted in batches:
        calls += min(wanted, int(spending.calls_left(totals(calls=calls))))
    assert calls <= max(limit, done)
