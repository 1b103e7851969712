"""Check that an idle callback changes nothing, and what the laws leave out of rollouts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from trl import GRPOTrainer, RLOOTrainer

from helpers.trl_world import TASKS, right_hint, rows, score
from prompt_coevo.adapters.trl import CoevoCallback, attach
from prompt_coevo.types import Assignment, Candidate, RolloutRequest, Sampling
from standins.trl_vllm import use_vllm

VOLATILE = ("time", "runtime", "per_second", "coevo/")


def weights(trainer: Any) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in trainer.model.parameters()]


def logged(trainer: Any) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in entry.items() if not any(part in k for part in VOLATILE)}
        for entry in trainer.state.log_history
    ]


def same(one: Any, other: Any) -> bool:
    pairs = zip(weights(one), weights(other), strict=True)
    return all(torch.equal(a, b) for a, b in pairs) and logged(one) == logged(other)


@pytest.mark.parametrize("trainer", [GRPOTrainer, RLOOTrainer])
def test_settings_that_change_nothing_change_nothing(make_trainer: Any, trainer: type) -> None:
    config = {"max_steps": 4, "num_iterations": 2, "beta": 0.05}
    bare = make_trainer(trainer, **config)
    bare.train()
    with_callback = make_trainer(trainer, **config)
    attach(with_callback, {"algorithms": ()})
    with_callback.train()
    assert same(bare, with_callback)


@pytest.fixture
def policy(make_trainer: Any) -> Any:
    """Build a policy between two steps, as the engine gets it, and its trainer."""

    def make(**config: Any) -> tuple[Any, Any]:
        trainer = make_trainer(reward_funcs=score, max_steps=1, **config)
        callback = CoevoCallback(trainer, {"algorithms": (), "question_id_column": "id"})
        trainer.add_callback(callback)
        trainer.train()
        return callback.policy, trainer

    return make


def request(number: int, template: str | None = None, temperature: float = 0.0) -> RolloutRequest:
    candidate = Candidate(template, "template") if template else None
    return RolloutRequest(Assignment(f"q{number}", template=candidate), Sampling(temperature))


def test_rollouts_through_vllm(policy: Any) -> None:
    current, trainer = policy()
    engine = use_vllm(trainer)
    rollouts = current.rollout([request(n, right_hint(TASKS[n])) for n in range(8)])
    assert sum(r.reward for r in rollouts) > 4
    assert engine.calls == [{"rows": 8, "n": 1, "temperature": 0.0}]
    assert engine.syncs == 1
    assert engine.temperature == trainer.temperature


def test_a_searchs_temperature_wins_over_that_of_the_generation_kwargs(make_trainer: Any) -> None:
    trainer = make_trainer(generation_kwargs={"temperature": 0.7, "top_k": 5})
    engine = use_vllm(trainer)
    callback = attach(trainer, {"algorithms": (), "question_id_column": "id"})
    trainer.train()
    assert {call["temperature"] for call in engine.calls} == {0.7}
    engine.calls.clear()
    callback.policy.rollout([request(0), request(1, temperature=0.4)])
    assert [call["temperature"] for call in engine.calls] == [0.0, 0.4]
    assert engine.generation_kwargs == {"temperature": 0.7, "top_k": 5}


def test_rollouts_are_scored_with_their_own_rows_columns(make_trainer: Any) -> None:
    """Rows of one prompt without a right answer are distinguished by what the reward reads."""
    dataset = [{"prompt": rows()[0]["prompt"], "worth": n / 8} for n in range(4)]
    trainer = make_trainer(dataset=dataset, reward_funcs=lambda worth, **_: worth)
    callback = attach(trainer, {"algorithms": (), "ground_truth_column": None})
    trainer.train()
    ids = callback.policy.question_ids()
    rollouts = callback.policy.rollout([RolloutRequest(Assignment(one), Sampling()) for one in ids])
    assert [one.reward for one in rollouts] == [0, 0.125, 0.25, 0.375]


def test_a_reward_of_none_is_unfit(make_trainer: Any) -> None:
    trainer = make_trainer(reward_funcs=lambda completions, **_: [None] * len(completions))
    callback = attach(trainer, {"algorithms": (), "question_id_column": "id"})
    trainer.train()
    (rollout,) = callback.policy.rollout([request(0)])
    assert rollout.status == "no_reward"
    assert not rollout.fit


def test_an_error_of_the_reward_function_passes_through_and_leaves_no_trace(
    make_trainer: Any,
) -> None:
    def broken(completions: Any, **_: Any) -> list[float]:
        if not trainer.model.training:
            raise RuntimeError("the verifier is down")
        return [0.0] * len(completions)

    trainer = make_trainer(reward_funcs=broken)
    callback = attach(trainer, {"algorithms": (), "question_id_column": "id"})
    trainer.train()
    trainer.model.train()
    with pytest.raises(RuntimeError, match="the verifier is down"):
        callback.policy.rollout([request(0)])
    assert trainer.model.training
    assert callback.policy.active is None
