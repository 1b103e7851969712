"""Check that a clock that runs backwards changes no decision and loses no data."""

from __future__ import annotations

import itertools
import json
import time
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest

from helpers.searches import SMALL_SEARCH
from prompt_coevo import Coevolution, Settings
from prompt_coevo.engine import journal
from prompt_coevo.testing.scripted_world import (
    QUESTIONS,
    ScriptedPolicy,
    helpful_reply,
    rolled_out,
    rule,
)


def days(step: int) -> Any:
    """Return a clock that moves by this many days on each reading."""
    count = itertools.count()

    class Clock:
        @staticmethod
        def now(zone: tzinfo | None = None) -> datetime:
            return datetime(2026, 6, 1, tzinfo=zone) + timedelta(days=step * next(count))

        @staticmethod
        def time() -> float:
            return Clock.now(UTC).timestamp()

    return Clock


def lives(folder: Path) -> tuple[list[Any], dict[str, float], list[str]]:
    """Return the plans, the calls paid for and the ordered events of two attempts."""
    plans: list[Any] = []
    policy = ScriptedPolicy(rule)
    for _ in range(2):
        settings = Settings(
            algorithms="p2o", p2o=SMALL_SEARCH, reflection={"function": helpful_reply}
        )
        engine = Coevolution.from_settings(settings, output_dir=folder)
        with policy.open():
            engine.begin(policy)
            for _ in range(2):
                plan = engine.plan(list(QUESTIONS)[:6], 2)
                plans.append([one.to_json() for one in plan])
                engine.observe([rolled_out(one, rule) for one in plan])
                engine.step_end(policy)
                engine.epoch_end(policy)
    events = (folder / "coevo" / "events.jsonl").read_text("utf-8").splitlines()
    names = [json.loads(line)["event"] for line in events]
    return plans, dict(engine.metrics()), names


def test_a_clock_that_goes_back_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = lives(tmp_path / "forward")
    clock = days(-1)
    monkeypatch.setattr(journal, "datetime", clock)
    monkeypatch.setattr(time, "time", clock.time)
    plans, numbers, names = lives(tmp_path / "back")
    seconds = "coevo/reflection_seconds"
    assert plans == expected[0]
    assert names == expected[2]
    assert numbers.pop(seconds) >= 0
    assert expected[1].pop(seconds) >= 0
    assert numbers == expected[1]
