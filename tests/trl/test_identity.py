"""What must not change: a run with a callback that has nothing to do, and policy rollouts in between."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from trl import GRPOTrainer, RLOOTrainer

from helpers.trl_world import TASKS, right_hint, score
from prompt_coevo.adapters.trl import CoevoCallback, attach
from prompt_coevo.demo.evaluate import rewards
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


def test_a_search_that_finds_nothing_changes_nothing(make_trainer: Any) -> None:
    """Its rollouts run between the steps and leave no trace in the training state."""

    def noisy(completions: Any, log_metric: Any, log_extra: Any, **_: Any) -> list[float]:
        random.random()
        np.random.rand()
        torch.rand(1)
        log_metric("mine", 1.0)
        log_extra("column", [random.random() for _ in completions])
        return [random.random() / 10 for _ in completions]

    config = {"max_steps": 8, "reward_funcs": noisy, "log_completions": False}
    bare = make_trainer(**config)
    random.seed(1)
    np.random.seed(1)
    bare.train()
    searching = make_trainer(**config)
    random.seed(1)
    np.random.seed(1)
    callback = attach(
        searching,
        {
            "p2o": {"dev_size": 2, "minibatch_size": 2, "search_budget": 40, "solved_at": 9.0},
            "reflection": {"function": lambda prompt: "<template>note</template>"},
        },
    )
    searching.train()
    assert callback.engine.metrics()["coevo/searches"] == 1
    assert callback.engine.metrics()["coevo/search_rollouts"] > 2
    assert same(bare, searching)


@pytest.fixture
def policy(make_trainer: Any) -> Any:
    """A policy between two steps, as the engine gets it, and its trainer."""

    def make(**config: Any) -> tuple[Any, Any]:
        trainer = make_trainer(reward_funcs=score, max_steps=1, **config)
        callback = CoevoCallback(trainer, {"algorithms": (), "question_id_column": "id"})
        trainer.add_callback(callback)
        trainer.train()
        return callback._policy, trainer

    return make


def request(number: int, template: str | None = None, temperature: float = 0.0) -> RolloutRequest:
    candidate = Candidate(template, "template") if template else None
    return RolloutRequest(Assignment(f"q{number}", template=candidate), Sampling(temperature))


def test_greedy_rollouts_are_the_models_own_argmax(policy: Any) -> None:
    current, trainer = policy(per_device_train_batch_size=4)
    rollouts = current.rollout([request(n) for n in range(8)])
    expected = rewards(trainer.model.eval(), trainer.processing_class, TASKS)
    assert [rollout.reward for rollout in rollouts] == expected.tolist()
    again = current.rollout([request(n) for n in range(8)])
    assert [r.completion for r in again] == [r.completion for r in rollouts]


def test_templates_are_in_the_prompt_and_help(policy: Any) -> None:
    current, _ = policy()
    hinted = current.rollout([request(n, right_hint(task)) for n, task in enumerate(TASKS)])
    plain = current.rollout([request(n) for n in range(8)])
    assert sum(r.reward for r in hinted) > sum(r.reward for r in plain) + 4
    assert [rollout.assignment.question_id for rollout in hinted] == [f"q{n}" for n in range(8)]


def test_sampled_rollouts_differ_from_call_to_call(policy: Any) -> None:
    current, _ = policy()
    texts = [
        tuple(r.completion for r in current.rollout([request(0, temperature=1.0)] * 6))
        for _ in range(3)
    ]
    assert len(set(texts)) == 3
    assert len(set(texts[0])) > 1


def test_the_temperature_is_the_requests(policy: Any) -> None:
    current, _ = policy()
    cold = current.rollout([request(0, temperature=0.01)] * 8)
    hot = current.rollout([request(0, temperature=5.0)] * 8)
    assert len({r.completion for r in cold}) == 1
    assert len({r.completion for r in hot}) == 8


def test_requests_with_different_sampling_come_back_in_order(policy: Any) -> None:
    current, _ = policy()
    requests = [request(n, temperature=float(n % 2)) for n in range(6)]
    assert [r.assignment.question_id for r in current.rollout(requests)] == [
        f"q{n}" for n in range(6)
    ]


def test_rollouts_leave_the_training_state_alone(policy: Any) -> None:
    current, trainer = policy()
    trainer.model.train()
    before = torch.get_rng_state(), random.getstate(), dict(trainer._metrics["eval"])
    tokens = trainer.state.num_input_tokens_seen
    config, attributes = trainer.generation_config, set(vars(trainer))
    current.rollout([request(0, temperature=1.0)] * 3)
    assert trainer.model.training
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()
    assert before[2] == dict(trainer._metrics["eval"])
    assert trainer.state.num_input_tokens_seen == tokens
    assert trainer.generation_config is config
    assert set(vars(trainer)) == attributes


def test_rollouts_through_vllm(policy: Any) -> None:
    current, trainer = policy()
    engine = use_vllm(trainer)
    rollouts = current.rollout([request(n, right_hint(TASKS[n])) for n in range(8)])
    assert sum(r.reward for r in rollouts) > 4
    assert engine.calls == [{"rows": 8, "n": 1, "temperature": 0.0}]
    assert engine.syncs == 1
    assert engine.temperature == trainer.temperature


def test_a_reward_of_none_is_unfit(make_trainer: Any) -> None:
    trainer = make_trainer(reward_funcs=lambda completions, **_: [None] * len(completions))
    callback = attach(trainer, {"algorithms": (), "question_id_column": "id"})
    trainer.train()
    (rollout,) = callback._policy.rollout([request(0)])
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
        callback._policy.rollout([request(0)])
    assert trainer.model.training
    assert callback._policy.active is None
