"""The asynchronous trainer with P2O's search in waves: training goes on while the search waits.

Stand-ins: vLLM, flash-attn, the device, and the reflection model's HTTP server.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from helpers.openrlhf_run import OpenRLHFRun
from helpers.openrlhf_world import P2O, events, reflection, response_of, teach
from standins.openai_server import openai_server

pytestmark = pytest.mark.long

STEPS = 6
GIVEN_UP_S = 600.0
"""Far beyond what an update takes: then the test fails, instead of waiting for ever."""


def test_weights_are_broadcast_while_the_reflection_model_writes(tmp_path: Path) -> None:
    """It answers its first call only when training has updated the weights that the search began with."""
    running: list[OpenRLHFRun] = []
    during: list[int] = []

    def version() -> int:
        log = running[0].server_log()
        return max(event["version"] for event in log if event["event"] == "weights")

    def answer(body: dict[str, Any]) -> str:
        deadline = time.monotonic() + GIVEN_UP_S
        # Both batches of the first episode were handed over before the search.
        while not during and version() < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        during.append(version())
        return teach(body)

    with (
        openai_server(answer) as server,
        OpenRLHFRun(
            tmp_path,
            module="prompt_coevo.adapters.openrlhf",
            overrides=[
                *("--coevo.method", "p2o", *P2O, *reflection(server.base)),
                *("--coevo.reflection.timeout_s=2000", "--coevo.reflection.total_timeout_s=2000"),
                *("--train.num_episodes=3", "--train.async_enable"),
                "--algo.advantage.is_correction_level=token",
            ],
            env={"OPENAI_API_KEY": "sk-test"},
        ) as run,
    ):
        running.append(run)
        result = run.wait()
    assert result.returncode == 0, result.tail
    assert during[0] == 2
    assert list(result.metrics) == list(range(1, STEPS + 1))
    assert result.metrics[STEPS]["train/coevo/searches"] == 2
    # What is said of the weights that sampled a row is what the engine had.
    ages = set()
    for row in result.actor:
        age = row["info"]["coevo/staleness"]
        sampled = {
            event["version"]
            for event in result.generated()
            if event["temperature"] == 1.0 and event["response_ids"] == response_of(row)
        }
        assert row["step"] - 1 - age in sampled
        ages.add(age)
    assert ages <= {0.0, 1.0}
    for note in events(result, "search_under_several_weights"):
        assert len(note["rollouts"]) > 1
