"""Check that the adapter for TRL keeps the laws, in the unmodified trainers."""

from __future__ import annotations

import pytest

from helpers.trl_under_test import TrlAdapterUnderTest
from prompt_coevo.testing.adapter import LAWS, Laboratory, adapter_laws

test_trl_adapter = adapter_laws(TrlAdapterUnderTest)

# RLOOTrainer has its own generation and loss, and GRPOTrainer's training loop.
OF_ITS_OWN = (
    "every round is planned once",
    "the plan is placed",
    "rewards belong to their member",
    "rewards see the questions own prompt",
    "the loss is on the train prompt",
    "the loss covers the completion",
    "every log prob is on the trained prompt",
    "policy rollouts are placed and in order",
    "greedy is greedy",
    "requests have their temperature",
    "sampled rollouts are drawn anew",
    "policy rollouts leave the host alone",
    "the engines metrics reach the log",
    "every update is a step",
    "an epoch ends before the next one",
)


@pytest.fixture(scope="module")
def rloo(tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    return Laboratory(TrlAdapterUnderTest("RLOO"), tmp_path_factory.mktemp("rloo"))


@pytest.mark.parametrize("law", OF_ITS_OWN)
def test_rloo(rloo: Laboratory, law: str) -> None:
    LAWS[law].check(rloo)
