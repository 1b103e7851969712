"""Check the most common script: a format reward beside the reward for the right answer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from helpers.trl_runs import EPOCHS, events, know_all
from helpers.trl_world import score, text_of
from prompt_coevo.adapters.trl import attach
from prompt_coevo.errors import SettingsError

OWN = {"question_id_column": "id", "reflection": {"function": know_all}}


def accuracy_reward(completions: Sequence[Any], answer: Sequence[str], **_: Any) -> list[float]:
    return score(completions, answer)


async def correctness(completions: Sequence[Any], answer: Sequence[str], **_: Any) -> list[float]:
    return score(completions, answer)


def format_reward(completions: Sequence[Any], **_: Any) -> list[float]:
    """Return 1 always, as after the first steps of any run."""
    return [1.0 for _ in completions]


def spread_reward(completions: Sequence[Any], **_: Any) -> list[float]:
    return [len(set(text_of(one).split())) / 20 for one in completions]


def last(trainer: Any, name: str) -> float:
    found: list[float] = [
        one[f"coevo/{name}"] for one in trainer.state.log_history if f"coevo/{name}" in one
    ]
    return found[-1]


@pytest.mark.parametrize(
    "rewards", [[format_reward, accuracy_reward], [correctness, format_reward]]
)
@pytest.mark.parametrize("scale", ["sum_then_normalize", "normalize_then_sum"])
def test_questions_are_hard_by_the_right_answer(
    make_trainer: Any, caplog: pytest.LogCaptureFixture, rewards: list[Any], scale: str
) -> None:
    options = {
        "reward_funcs": rewards,
        "reward_weights": [0.5, 2.0],
        "multi_objective_aggregation": scale,
    }
    trainer = make_trainer(**{**EPOCHS, **options, "num_train_epochs": 2})
    with caplog.at_level(logging.INFO, logger="prompt_coevo"):
        attach(trainer, OWN)
    assert caplog.text.count("decides whether a rollout succeeded") == 1
    trainer.train()
    (chosen,) = [one for one in events(trainer) if one["event"] == "reward_chosen"]
    assert chosen["reward"] in ("accuracy_reward", "correctness")
    assert chosen["among"] == trainer.reward_func_names
    assert last(trainer, "hard_samples") > 0
    assert last(trainer, "reflection_calls") > 0
    assert last(trainer, "reward_untemplated") < 0.5  # the sum is 0.5 at least


def test_the_loss_keeps_the_trainers_own_sum(make_trainer: Any) -> None:
    """Naming the reward that decides changes no weight of a run that has no template yet."""
    import torch

    ends = []
    for named in (None, "accuracy_reward"):
        trainer = make_trainer(
            reward_funcs=[spread_reward, accuracy_reward], reward_weights=[1.0, 2.0]
        )
        if named:
            attach(trainer, OWN, success={"reward": named})
        trainer.train()
        ends.append(trainer.model.state_dict())
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_several_rewards_and_none_obvious_are_refused_before_training(make_trainer: Any) -> None:
    trainer = make_trainer(reward_funcs=[format_reward, spread_reward])
    with pytest.raises(SettingsError, match=r"\(format_reward, spread_reward\), and none is named"):
        attach(trainer, OWN)
    attach(trainer, OWN, success={"reward": "sum"})


def test_rewards_of_minus_one_and_one_are_said_and_set(
    make_trainer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def signed(completions: Sequence[Any], answer: Sequence[str], **_: Any) -> list[float]:
        return [2 * one - 1 for one in score(completions, answer)]

    for scale, told in (({}, True), ({"low": -1.0}, False)):
        caplog.clear()
        trainer = make_trainer(reward_funcs=signed)
        attach(trainer, OWN, success=scale)
        trainer.train()
        assert (
            "set these two to the rewards of a wrong and of a right answer" in caplog.text
        ) is told


def test_a_deciding_reward_of_none_is_no_verdict(make_trainer: Any) -> None:
    def accuracy(completions: Sequence[Any], **_: Any) -> list[float | None]:
        return [None for _ in completions]

    trainer = make_trainer(**{**EPOCHS, "reward_funcs": [spread_reward, accuracy]})
    attach(trainer, OWN)
    trainer.train()
    assert last(trainer, "hard_samples") == 0
    assert "no_rewards" in [one.get("sign") for one in events(trainer)]
