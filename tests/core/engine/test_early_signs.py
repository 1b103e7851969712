"""Check what the first rounds reveal about a run that cannot learn."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from prompt_coevo import Coevolution, Settings
from prompt_coevo.types import Rollout


def run(
    folder: Path,
    rewards: Callable[[int, int], Sequence[float]],
    rounds: int = 6,
    **settings: object,
) -> list[dict[str, str]]:
    """Train rounds of three groups of four, and return the signs in the journal."""
    engine = Coevolution.from_settings(
        Settings(algorithms=(), sinks=("journal",), **settings), output_dir=folder
    )
    for number in range(rounds):
        plan = engine.plan(["a", "b", "c"], 4)
        given = [one for group in range(3) for one in rewards(number, group)]
        engine.observe(
            [Rollout.scored(*pair, engine.policy_version) for pair in _rows(plan, given)]
        )
    lines = (folder / "coevo" / "events.jsonl").read_text("utf-8").splitlines()
    return [one for one in map(json.loads, lines) if one["event"] == "early_sign"]


def _rows(plan: Sequence[object], rewards: Sequence[float]) -> list[tuple[object, str, float]]:
    return [(one, "text", reward) for one, reward in zip(plan, rewards, strict=True)]


def test_a_run_that_can_learn_is_told_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, lambda number, group: [0, 1, 0, group / 2]) == []


@pytest.mark.parametrize(
    ("rewards", "sign", "said"),
    [
        (
            lambda n, g: [0.0] * 4,
            "reward_never_moves",
            "the deciding reward is 0 for every one; if some",
        ),
        (lambda n, g: [float(g == 1)] * 4, "no_spread", "within every group all deciding rewards"),
        (lambda n, g: [math.nan] * 4, "no_rewards", "none has a reward"),
        (
            lambda n, g: [math.nan] * 4 if g else [0.0, 1.0, 0.0, 0.5],
            "groups_without_reward",
            "4 rounds, 12 groups: in 8 no rollout has the deciding reward",
        ),
        (lambda n, g: [-1.0, 1.0, 1.0, -1.0], "reward_outside_scale", "go from -1 to 1, outside"),
        (lambda n, g: [0.0, 100.0, 0.0, 0.0], "reward_outside_scale", "go from 0 to 100, outside"),
    ],
)
def test_a_sign_is_said_once(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    rewards: Callable[[int, int], Sequence[float]],
    sign: str,
    said: str,
) -> None:
    with caplog.at_level(logging.WARNING, logger="prompt_coevo"):
        (found,) = run(tmp_path, rewards)
    assert found["sign"] == sign
    assert said in found["reason"]
    assert caplog.text.count(said) == 1


@pytest.mark.parametrize(("size", "rounds"), [(2, 16), (4, 8), (8, 4), (16, 4)])
def test_small_rounds_are_looked_at_until_there_are_enough_rollouts(
    tmp_path: Path, size: int, rounds: int
) -> None:
    """TRL's default batch is one question a round."""
    engine = Coevolution.from_settings(Settings(algorithms=()), output_dir=tmp_path)
    for _ in range(20):
        version = engine.policy_version
        engine.observe([Rollout.scored(one, "", 0.0, version) for one in engine.plan(["a"], size)])
    lines = (tmp_path / "coevo" / "events.jsonl").read_text("utf-8").splitlines()
    (found,) = [one for one in map(json.loads, lines) if one["event"] == "early_sign"]
    assert f"after {rounds} rounds, {rounds * size} rollouts" in found["reason"]


def test_a_reward_that_never_moves_is_counted_where_there_is_one(tmp_path: Path) -> None:
    """Two sources of questions, of which one lacks the key that decides."""
    found = run(tmp_path, lambda n, g: [math.nan if g else 0.0] * 4)
    assert [one["sign"] for one in found] == ["reward_never_moves", "groups_without_reward"]
    assert (
        "48 rollouts: the deciding reward is 0 for each of the 16 that have" in found[0]["reason"]
    )


def test_a_tool_that_fails_now_and_then_is_no_sign(tmp_path: Path) -> None:
    assert run(tmp_path, lambda n, g: [0.0, 1.0, math.nan, math.nan if n else 0.5]) == []


@pytest.mark.parametrize(("lost", "signs"), [(1, []), (2, ["groups_without_reward"])])
def test_groups_without_a_reward_are_a_sign_from_a_tenth_on(
    tmp_path: Path, lost: int, signs: list[str]
) -> None:
    """One and two of twelve."""
    found = run(tmp_path, lambda n, g: [math.nan] * 4 if g == 0 and n < lost else [0.0, 1.0] * 2)
    assert [one["sign"] for one in found] == signs


def test_rewards_are_quoted_as_the_user_knows_them(tmp_path: Path) -> None:
    """The engine sees rewards scaled to 0..1; here -1 and 1 become 0 and 1."""
    scale = {"success": {"low": -1.0, "high": 1.0}}
    assert run(tmp_path / "in", lambda n, g: [0.0, 1.0, 0.0, 0.5], **scale) == []
    (found,) = run(tmp_path / "out", lambda n, g: [0.0, 2.0, 0.0, 0.5], **scale)
    assert "go from -1 to 3, outside success.low = -1 and success.high = 1" in found["reason"]


def test_rollouts_that_are_not_fit_say_nothing_of_rewards(tmp_path: Path) -> None:
    engine = Coevolution.from_settings(Settings(algorithms=()), output_dir=tmp_path)
    for _ in range(4):
        plan = engine.plan(["a", "b"], 4)
        version = engine.policy_version
        engine.observe([Rollout.scored(one, "", 0.0, version, "tool_error") for one in plan])
    text = (tmp_path / "coevo" / "events.jsonl").read_text("utf-8")
    assert "the deciding reward is 0" not in text
    assert "none has a reward" in text


def test_a_resumed_run_is_not_looked_at_again(tmp_path: Path) -> None:
    engine = Coevolution.from_settings(Settings(algorithms=()), output_dir=tmp_path)
    engine.load_state_dict(engine.state_dict())
    for _ in range(6):
        plan = engine.plan(["a", "b", "c"], 4)
        engine.observe([Rollout.scored(one, "", 0.0, engine.policy_version) for one in plan])
    assert '"early_sign"' not in (tmp_path / "coevo" / "events.jsonl").read_text("utf-8")


def test_a_constant_reward_is_quoted_so_too(tmp_path: Path) -> None:
    (found,) = run(tmp_path, lambda n, g: [0.0] * 4, success={"low": -1.0})
    assert "the deciding reward is -1 for every one" in found["reason"]
