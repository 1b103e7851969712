"""Check which reward decides success, and on what scale."""

from __future__ import annotations

import logging
import math
import struct
from typing import Any

import pytest

from prompt_coevo.adapters.common.success import Success, deciding_function, scaled, tell_choice
from prompt_coevo.algorithms.inspo.settings import InspoSettings
from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.algorithms.stream.settings import StreamSettings
from prompt_coevo.errors import HostError, SettingsError
from prompt_coevo.settings import Settings
from prompt_coevo.settings.success import SuccessSettings


def deciding(names: list[str], reward: str | None = None) -> int | None:
    return deciding_function(names, SuccessSettings(reward=reward))


def test_the_only_function_decides_whatever_it_is_called() -> None:
    assert deciding(["length"]) == 0


@pytest.mark.parametrize(
    "name",
    [
        *("accuracy_reward", "correctness_reward_func", "math_acc", "Accuracy", "is_solved"),
        *("AccuracyReward", "my-accuracy"),
    ],
)
def test_an_obvious_name_decides_and_is_logged(name: str, caplog: pytest.LogCaptureFixture) -> None:
    names, noted = ["think_format_reward", name], []

    def note(event: str, **fields: object) -> None:
        noted.append((event, fields))

    with caplog.at_level(logging.INFO, logger="prompt_coevo"):
        assert deciding(names) == 1
        tell_choice(names, 1, SuccessSettings(), note)
        for told in (
            (names, 1, SuccessSettings(reward=name)),
            (names, None, SuccessSettings(reward="sum")),
            ([name], 0, SuccessSettings()),
        ):
            tell_choice(*told, note)
    assert caplog.text.count(f"{name} decides whether a rollout succeeded") == 1
    assert noted == [("reward_chosen", {"reward": name, "among": names})]


@pytest.mark.parametrize(
    "names",
    [
        ["format", "length"],
        ["accuracy", "exact_match"],
        ["inaccurate", "tags"],
        ["access", "x"],
        ["format_correct_reward", "length_reward"],
    ],
)
def test_several_without_one_obvious_name_are_refused(names: list[str]) -> None:
    with pytest.raises(SettingsError) as refused:
        deciding(names)
    assert f"several reward functions ({', '.join(names)})" in str(refused.value)
    assert "set success.reward to its name" in str(refused.value)


def test_a_name_or_the_sum_may_be_given() -> None:
    names = ["accuracy", "tags", "length"]
    assert deciding(names, "tags") == 1
    assert deciding(names, "sum") is None
    assert deciding(["length"], "sum") is None
    assert deciding(["sum", "length"], "sum") == 0  # a function of this name


def test_a_name_that_is_none_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(SettingsError) as refused:
        deciding(["accuracy_reward", "tags"], "acuracy_reward")
    assert "names no reward function; there are accuracy_reward, tags" in str(refused.value)
    assert "did you mean accuracy_reward?" in str(refused.value)


def test_a_name_that_two_have_is_refused() -> None:
    with pytest.raises(SettingsError, match="some of one name; give them different names"):
        deciding(["<lambda>", "<lambda>"])
    with pytest.raises(SettingsError, match="names 2 reward functions"):
        deciding(["<lambda>", "<lambda>"], "<lambda>")


@pytest.mark.parametrize(
    ("low", "high", "reward", "found"),
    [
        (0, 1, 0.25, 0.25),
        (-1, 1, -1, 0.0),
        (-1, 1, 0.5, 0.75),
        (0, 100, 40, 0.4),
        (0.3, 2.3, 2.3, 1.0),
    ],
)
def test_a_reward_is_put_on_the_scale(low: float, high: float, reward: float, found: float) -> None:
    assert scaled(reward, SuccessSettings(low=low, high=high)) == pytest.approx(found)


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.9), (0, 0.7), (0.3, 2.3), (-0.1, 0.95)])
def test_single_precision_reaches_both_ends_of_the_scale(low: float, high: float) -> None:
    """Trainers keep rewards in single precision, which stores .9 as slightly less."""
    settings = SuccessSettings(low=low, high=high)
    assert (scaled(single(low), settings), scaled(single(high), settings)) == (0.0, 1.0)


@pytest.mark.parametrize("section", [StreamSettings, P2OSettings, InspoSettings])
@pytest.mark.parametrize("solved_at", [*(n / 20 for n in range(2, 21)), 1 / 3, 5 / 6, 100.1])
def test_single_precision_reaches_a_threshold(section: Any, solved_at: float) -> None:
    least = section(solved_at=solved_at).solved_from
    assert least <= min(solved_at, single(solved_at))
    assert least > solved_at * (1 - 1e-6)


def single(value: float) -> float:
    found: float = struct.unpack("f", struct.pack("f", value))[0]
    return found


def test_a_scale_without_a_length_is_refused() -> None:
    with pytest.raises(SettingsError, match="success.low = 1 must be below success.high = 1"):
        Settings(success={"low": 1})


class Of:
    def __init__(self, *values: float) -> None:
        self.values = values

    def flatten(self) -> tuple[float, ...]:
        return self.values


def reader(where: str) -> Success:
    return Success(SuccessSettings(reward="acc"), where)


@pytest.mark.parametrize(
    ("value", "found"), [(1, 1.0), (True, 1.0), (0.5, 0.5), (Of(0.5), 0.5), ([0.5], 0.5)]
)
def test_what_came_with_a_reward_is_read(value: Any, found: float) -> None:
    assert reader("there").of(0.0, {"acc": value}) == found


def test_a_rollout_without_it_has_no_reward() -> None:
    """A truncated episode, or an agent that scores itself, may leave the reward column out."""
    success = reader("extra_logs")
    for values in ({}, {"score": 1.0}, {"acc": None}) * 8:
        assert math.isnan(success.of(0.0, values))
    assert success.of(0.0, {"acc": 1.0}) == 1.0
    for _ in range(200):
        assert math.isnan(success.of(0.0, {}))


def test_a_name_that_no_rollout_has_ends_the_run_with_those_that_there_are() -> None:
    success = reader("extra_logs")
    for _ in range(63):
        success.of(0.0, {"score": 1.0, "format": 0.0})
    with pytest.raises(HostError) as refused:
        success.of(0.0, {"score": 1.0, "format": 0.0})
    assert str(refused.value).startswith(
        "none of the first 64 rollouts has success.reward = 'acc' in extra_logs; they have score, format;"
    )


@pytest.mark.parametrize("value", [{}, Of(), Of(1.0, 0.0), "yes", [], [1.0, 0.0], 10**400])
def test_a_thing_is_no_number(value: Any) -> None:
    with pytest.raises(HostError, match=r"is a \w+ in there; give it a number"):
        reader("there").of(0.0, {"acc": value})


@pytest.mark.parametrize("own", [0.5, Of(0.5), [0.5]])
def test_without_a_name_the_trainers_own_reward_decides(own: Any) -> None:
    assert Success(SuccessSettings(), "there").of(own, {"acc": 0.0}) == 0.5
    assert Success(SuccessSettings(high=2), "there").of(own, {}) == 0.25


@pytest.mark.parametrize("own", [Of(1.0, 0.0), [1.0, 0.0], "yes"])
def test_an_own_reward_that_is_no_number_is_refused(own: Any) -> None:
    with pytest.raises(HostError, match=r"the reward of a rollout is a \w+; give it a number"):
        Success(SuccessSettings(), "there").of(own, {})
