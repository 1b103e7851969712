"""Which reward decides, and on what scale."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from prompt_coevo.doors.success import deciding_function, reported, scaled
from prompt_coevo.errors import HostError, SettingsError
from prompt_coevo.settings import Settings
from prompt_coevo.settings.success import SuccessSettings


def deciding(names: list[str], reward: str | None = None) -> int | None:
    return deciding_function(names, SuccessSettings(reward=reward))


def test_the_only_function_decides_whatever_it_is_called() -> None:
    assert deciding(["length"]) == 0


@pytest.mark.parametrize(
    "name", ["accuracy_reward", "correctness_reward_func", "math_acc", "Accuracy", "is_solved"]
)
def test_an_obvious_name_decides_and_is_logged(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="prompt_coevo"):
        assert deciding(["think_format_reward", name]) == 1
    assert f"{name} decides whether a rollout succeeded (success.reward)" in caplog.text


@pytest.mark.parametrize(
    "names",
    [["format", "length"], ["accuracy", "exact_match"], ["inaccurate", "tags"], ["access", "x"]],
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


def test_a_scale_without_a_length_is_refused() -> None:
    with pytest.raises(SettingsError, match="success.low = 1 must be below success.high = 1"):
        Settings(success={"low": 1})


class OfOne:
    def flatten(self) -> list[float]:
        return [0.5]


@pytest.mark.parametrize(("value", "found"), [(1, 1.0), (True, 1.0), (0.5, 0.5), (OfOne(), 0.5)])
def test_what_came_with_a_reward_is_read(value: Any, found: float) -> None:
    assert reported({"acc": value}, "acc", "there") == found


@pytest.mark.parametrize("values", [None, {}, {"score": 1.0}, {"acc": "yes"}, {"acc": None}])
def test_what_is_not_there_or_no_number_is_refused(values: Any) -> None:
    with pytest.raises(HostError, match="success.reward = 'acc' is not a number in the reward's"):
        reported(values, "acc", "the reward's dictionary")


def test_a_thing_is_no_number() -> None:
    with pytest.raises(HostError, match="is a dict in"):
        reported({"acc": {}}, "acc", "there")
