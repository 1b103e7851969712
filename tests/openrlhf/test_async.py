"""Check the asynchronous trainer: training continues while a search in waves waits, the stream and INSPO
never stop it, and a killed run resumes.

Stand-ins: vLLM, flash-attn, the device, and the reflection model's HTTP server.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from helpers.openrlhf_run import TASKS, OpenRLHFRun, Result, run_openrlhf
from helpers.openrlhf_world import (
    BOTH,
    INSPO,
    P2O,
    events,
    prompt_of,
    reflection,
    response_of,
    teach,
    tokens,
)
from standins.openai_server import openai_server

pytestmark = pytest.mark.long

STEPS = 6
GIVEN_UP_S = 600.0
"""Far longer than an update: then the test fails instead of waiting forever."""


def check_ages(result: Result) -> set[float]:
    """Check that the reported policy version of each row is the engine's. Return the reported ages."""
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
    return ages


def test_weights_are_broadcast_while_the_reflection_model_writes(tmp_path: Path) -> None:
    """The model answers its first call only after training has updated the search's initial weights."""
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
    assert check_ages(result) <= {0.0, 1.0}
    for note in events(result, "search_under_several_weights"):
        assert len(note["rollouts"]) > 1


def test_the_search_that_never_stops_training_and_instructions(tmp_path: Path) -> None:
    stream = ("--coevo.stream.tau=0.5",)
    with openai_server(teach) as server:
        result = run_openrlhf(
            tmp_path,
            module="prompt_coevo.adapters.openrlhf",
            overrides=[
                *("--coevo.method", "both", *stream, *INSPO, *reflection(server.base)),
                *("--train.num_episodes=4", "--train.async_enable"),
            ],
            env={"OPENAI_API_KEY": "sk-test"},
        )
    assert result.returncode == 0, result.tail
    last = result.metrics[8]
    assert last["train/coevo/evolutions"] >= 1
    assert last["train/coevo/reflection_calls"] > 0
    assert any(m["train/coevo/templated_fraction"] > 0 for m in result.metrics.values())
    assert any(row["info"]["coevo_distilled"] for row in result.actor)
    assert check_ages(result) <= {0.0, 1.0, 2.0}
    texts = {one["text"] for e in events(result, "population_changed") for one in e["added"]}
    wanted = [tokens(task.question, text) for task in TASKS for text in texts]
    assert all(prompt_of(row) in wanted for row in result.actor)


def test_a_killed_run_goes_on_where_its_checkpoint_was(tmp_path: Path) -> None:
    """The run is killed in its second search, whose rollouts are sampled while training may continue."""
    killed_after = 3
    with openai_server(teach) as server:
        start = {
            "module": "prompt_coevo.adapters.openrlhf",
            "overrides": [
                *(*BOTH, *reflection(server.base)),
                *("--train.num_episodes=3", "--train.async_enable", "--ckpt.save_steps=1"),
            ],
            "env": {"OPENAI_API_KEY": "sk-test"},
        }

        def in_its_second_search(run: OpenRLHFRun) -> bool:
            return any(
                event["event"] == "generate"
                and event["version"] >= killed_after
                and event["temperature"] != 1.0
                for event in run.server_log()
            )

        with OpenRLHFRun(tmp_path, **start) as run:
            killed = run.kill_when(in_its_second_search)
        resumed = run_openrlhf(tmp_path, **start)
    assert resumed.returncode == 0, resumed.tail
    assert "co-evolution starts anew" not in resumed.output
    assert len(events(resumed, "resumed")) == 1
    done = min(resumed.metrics) - 1
    assert killed_after - 1 <= done <= STEPS
    assert sorted(resumed.metrics) == list(range(done + 1, STEPS + 1))
    assert max(killed.metrics) >= done
    assert resumed.metrics[STEPS]["train/coevo/searches"] == 2
    assert resumed.metrics[STEPS]["train/coevo/train_rollouts"] == STEPS * 16
    assert {row["info"]["coevo/staleness"] for row in resumed.actor} <= {0.0, 1.0}
