"""Check several vLLM engines and several ranks of the actor.

Stand-ins: vLLM, flash-attn, the device, and the reflection model's HTTP server.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from helpers.openrlhf_run import TASKS, run_openrlhf
from helpers.openrlhf_world import (
    GROUP,
    P2O,
    prompt_of,
    reflection,
    response_of,
    sampled_under,
    teach,
    tokens,
)
from standins.openai_server import openai_server

pytestmark = pytest.mark.long

STEPS, BATCH = 6, 16


def test_two_engines_and_two_ranks(tmp_path: Path) -> None:
    """Both engines have the same weights, and every row of both ranks is its own question's."""
    with openai_server(teach) as server:
        run = run_openrlhf(
            tmp_path,
            module="prompt_coevo.adapters.openrlhf",
            overrides=[
                *("--coevo.method", "p2o", *P2O, *reflection(server.base)),
                *("--train.num_episodes=3", "--vllm.num_engines=2", "--actor.num_gpus_per_node=2"),
                *("--rollout.micro_batch_size=8", "--train.micro_batch_size=8"),
            ],
            env={"OPENAI_API_KEY": "sk-test"},
        )
    assert run.returncode == 0, run.tail
    last = run.metrics[STEPS]
    assert last["train/coevo/searches"] == 2
    assert last["train/coevo/train_rollouts"] == STEPS * BATCH
    assert {m["train/coevo/staleness"] for m in run.metrics.values()} == {0.0}
    checksums = defaultdict(list)
    for event in run.weights():
        checksums[event["version"]].append(event["checksum"])
    assert list(checksums) == list(range(STEPS + 1))
    for both in checksums.values():
        assert len(both) == 2
        assert both[0] == pytest.approx(both[1])
    assert Counter(row["step"] for row in run.actor) == dict.fromkeys(range(1, STEPS + 1), BATCH)
    questions = [tokens(task.question) for task in TASKS]
    groups = Counter((row["step"], tuple(prompt_of(row))) for row in run.actor)
    assert set(groups.values()) == {GROUP}
    distilled = [row for row in run.actor if row["info"]["coevo_distilled"]]
    assert distilled
    for row in run.actor:
        assert prompt_of(row) in questions
        assert response_of(row)
    for row in distilled:
        assert any(list(prompt) not in questions for prompt in sampled_under(run, row))
