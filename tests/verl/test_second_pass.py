"""Check copies of distilled rows with their sampling prompts, without a trainer."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from tensordict import NonTensorStack, TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo import padding_utils
from verl.trainer.ppo.v1 import PPOTrainerSync

from prompt_coevo.adapters.verl import trainer
from prompt_coevo.adapters.verl.distill import ERROR, ROLLED_OUT
from prompt_coevo.adapters.verl.second_pass import _with_rollout_prompts
from prompt_coevo.adapters.verl.trainer import CoevoTrainer
from prompt_coevo.errors import HostError


def rows(*extras: dict[str, Any]) -> TensorDict:
    def jagged(*values: list[int]) -> torch.Tensor:
        tensors = [torch.tensor(one) for one in values]
        return torch.nested.as_nested_tensor(tensors, layout=torch.jagged)

    fields = {
        "responses": jagged([1], [2, 3]),
        "position_ids": jagged([0, 1], [0, 1, 2]),
        "extra_fields": NonTensorStack(*extras),
    }
    return TensorDict(fields, batch_size=2)


def under(*ids: int) -> dict[str, Any]:
    return {ROLLED_OUT: array("i", ids).tobytes()}


def test_the_prompt_stands_in_front_of_the_response() -> None:
    copies = _with_rollout_prompts(rows(under(7, 8), under(9)))
    assert [one.tolist() for one in copies["input_ids"].unbind()] == [[7, 8, 1], [9, 2, 3]]
    assert [one.tolist() for one in copies["position_ids"].unbind()] == [[0, 1, 2], [0, 1, 2]]


def test_rows_that_were_sampled_before_it_was_switched_on() -> None:
    """A checkpoint of an asynchronous trainer holds such rows."""
    with pytest.raises(HostError, match="sampled before it was switched on were not recorded"):
        _with_rollout_prompts(rows(under(7), {}))


def test_what_an_agent_loop_reported_comes_first() -> None:
    with pytest.raises(HostError, match="^the loop mine$"):
        _with_rollout_prompts(rows(under(7), {ERROR: "the loop mine"}))


class Store:
    """Stand in for TransferQueue where VeRL pads a batch."""

    def kv_batch_get(self, keys: list[str], partition_id: str) -> list[dict[str, Any]]:
        return [{"uid": key} for key in keys]

    def kv_batch_put(self, **_: Any) -> None: ...


def batch(rows: int) -> KVBatchMeta:
    return KVBatchMeta(
        partition_id="train",
        keys=[f"u_{row}_0" for row in range(rows)],
        tags=[{"seq_len": 4} for _ in range(rows)],
    )


@pytest.mark.parametrize(("by_tokens", "rows_in_all"), [(True, 4), (False, 6)])
def test_it_is_filled_up_for_a_forward_pass_and_not_to_a_mini_batch(
    monkeypatch: pytest.MonkeyPatch, by_tokens: bool, rows_in_all: int
) -> None:
    """VeRL's own batches still are: 3 rows in 2 ranks, with mini-batches of 2 questions x 4, and for
    log-probs micro-batches of 3 rows unless these go by tokens."""
    passes: list[int] = []

    def old_log_prob(_: Any, rows: KVBatchMeta, metrics: Any) -> KVBatchMeta:
        passes.append(len(rows))
        return rows

    def twice(_: Any, rows: KVBatchMeta, compute: Callable[[KVBatchMeta], Any]) -> torch.Tensor:
        compute(batch(3))
        return torch.zeros(1, 4)

    monkeypatch.setattr(padding_utils, "tq", Store())
    monkeypatch.setattr(PPOTrainerSync, "_compute_old_log_prob", old_log_prob)
    monkeypatch.setattr(trainer, "after_rollout_prompts", twice)
    monkeypatch.setattr(trainer, "effect", lambda *_: {})
    made = object.__new__(CoevoTrainer)
    made._settings = SimpleNamespace(distill_forward=True)
    made.actor_rollout_wg = SimpleNamespace(_dispatch_info={"actor": [0, 1]})
    made.tokenizer, made.use_critic, made.global_steps = SimpleNamespace(eos_token_id=0), False, 1
    rollout = {
        "n": 4,
        "log_prob_use_dynamic_bsz": by_tokens,
        "log_prob_micro_batch_size_per_gpu": None if by_tokens else 3,
    }
    sizes = {"rollout": rollout, "actor": {"ppo_mini_batch_size": 2}}
    made.config = OmegaConf.create(
        {"actor_rollout_ref": sizes, "trainer": {"critic_warmup": 0, "balance_batch": True}}
    )
    monkeypatch.setattr(made, "_distilled", lambda _: ["u_0_0"])
    made._compute_old_log_prob(made._balance_batch(batch(3), {}), {})
    assert passes == [8, rows_in_all]
