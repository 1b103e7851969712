"""Copies of distilled rows with the prompt that they ran under, without a trainer."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
import torch
from tensordict import NonTensorStack, TensorDict

from prompt_coevo.adapters.verl.distil import ROLLED_OUT
from prompt_coevo.adapters.verl.second_pass import _with_rollout_prompts
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
    with pytest.raises(HostError, match="sampled before it was switched on, were not written down"):
        _with_rollout_prompts(rows(under(7), {}))
