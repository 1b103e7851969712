"""Check that a run killed in its second search resumes at its checkpoint, also with the asynchronous
trainer.

Stand-ins: vLLM, flash-attn, the device, and the reflection model's HTTP server.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from helpers.openrlhf_run import TASKS, OpenRLHFRun, Result, rows, run_openrlhf
from helpers.openrlhf_world import BOTH, INSPO, events, prompt_of, reflection, teach, tokens
from standins.openai_server import openai_server

STEPS = 6
KILLED_AFTER = 4


def arguments(base: str, *more: str) -> dict[str, Any]:
    return {
        "module": "prompt_coevo.adapters.openrlhf",
        "overrides": [
            *(*BOTH, *reflection(base)),
            *("--train.num_episodes=3", "--ckpt.save_steps=2", *more),
        ],
        "env": {"OPENAI_API_KEY": "sk-test"},
    }


def in_its_second_search(run: OpenRLHFRun) -> bool:
    """Tell whether a checkpoint was written and rollouts for the search after it have begun."""
    return any(
        event["event"] == "generate"
        and event["version"] == KILLED_AFTER
        and event["temperature"] != 1.0
        for event in run.server_log()
    )


def trained(result: Result, step: int) -> Counter[Any]:
    return Counter(
        (tuple(row["sequences"]), tuple(round(value, 2) for value in row["advantages"]))
        for row in result.actor
        if row["step"] == step
    )


def counted(result: Result) -> dict[str, float]:
    """Return our metrics after the last step, except those of money and time."""
    return {
        name: value
        for name, value in result.metrics[STEPS].items()
        if name.startswith("train/coevo/") and "reflection" not in name
    }


def decisions(result: Result) -> list[Any]:
    """Return the chosen templates and instructions, in order."""
    found: list[Any] = []
    for event in events(result, "templates_assigned", "population_changed"):
        texts = [one["text"] for one in event.get("pool", event.get("added", []))]
        found.append((event["event"], texts, event.get("cover"), event.get("removed")))
    return found


@pytest.mark.long
def test_a_run_killed_in_a_search_goes_on(tmp_path: Path) -> None:
    with openai_server(teach) as server:
        whole = run_openrlhf(tmp_path / "whole", **arguments(server.base))
    assert whole.returncode == 0, whole.tail
    with openai_server(teach) as server:
        with OpenRLHFRun(tmp_path / "interrupted", **arguments(server.base)) as run:
            killed = run.kill_when(in_its_second_search)
        again = arguments(server.base)
        # The stand-in's rows depend on the number of the weights, which it counts from its start.
        again["env"]["COEVO_TEST_FIRST_VERSION"] = str(KILLED_AFTER - 1)
        resumed = run_openrlhf(tmp_path / "interrupted", **again)
    assert resumed.returncode == 0, resumed.tail
    for step in range(1, KILLED_AFTER + 1):
        assert trained(killed, step) == trained(whole, step), step
    for step in range(KILLED_AFTER + 1, STEPS + 1):
        assert trained(resumed, step) == trained(whole, step), step
    assert sorted(resumed.metrics) == [KILLED_AFTER + 1, STEPS]
    assert counted(resumed) == counted(whole)
    assert counted(resumed)["train/coevo/searches"] == 2  # the interrupted one was repeated
    assert decisions(resumed) == decisions(whole)
    assert len(events(resumed, "resumed")) == 1


@pytest.mark.long
def test_a_run_killed_in_the_search_after_training_ends_well_when_started_again(
    tmp_path: Path,
) -> None:
    """With the asynchronous trainer: its lock is free again, and no step is left to resume."""
    steps = 2

    def searches(run: OpenRLHFRun) -> bool:
        log = run.server_log()
        return any(e["event"] == "generate" and e["version"] == steps for e in log)

    with openai_server(teach) as server:
        start = {
            **arguments(server.base),
            "overrides": [
                *("--coevo.method", "inspo", *INSPO, *reflection(server.base)),
                *("--coevo.inspo.evolution=after", "--coevo.inspo.evolve_until=7"),
                *("--train.num_episodes=1", "--train.async_enable", "--ckpt.save_steps=1"),
            ],
        }
        with OpenRLHFRun(tmp_path, **start) as run:
            killed = run.kill_when(searches)
        again = run_openrlhf(tmp_path, **start)
    assert max(killed.metrics) == steps
    assert again.returncode == 0, again.tail
    assert again.metrics == {}
    assert len(events(again, "resumed")) == 1
    assert len(events(again, "training_ended")) == 1


@pytest.mark.long
def test_a_run_without_a_step_left_ends_well_when_it_is_started_again(tmp_path: Path) -> None:
    """As after a kill behind the last checkpoint, which holds a step that the engine has not ended."""
    stream = ("--coevo.stream.tau", "2.0")
    with openai_server(teach) as server:
        start = {
            **arguments(server.base),
            "overrides": [
                *("--coevo.method", "stream", *stream, *reflection(server.base)),
                *("--train.num_episodes=1", "--ckpt.save_steps=2"),
            ],
        }
        first = run_openrlhf(tmp_path, **start)
        again = run_openrlhf(tmp_path, **start)
    assert first.returncode == 0, first.tail
    assert again.returncode == 0, again.tail
    assert again.metrics == {}
    assert len(events(again, "resumed")) == 1
    assert len(events(again, "training_ended")) == 2


def test_the_asynchronous_trainer(tmp_path: Path) -> None:
    """Its only checkpoint is the best one, saved some steps after its evaluation; a second start resumes
    from it."""
    flags = ("--train.async_enable", "--eval.steps=3", "--ckpt.save_steps=50")
    with openai_server(teach) as server:
        result = run_openrlhf(tmp_path, val=rows(TASKS[:2]), **arguments(server.base, *flags))
        assert result.returncode == 0, result.tail
        more = arguments(server.base, *flags, "--train.num_episodes=4")
        resumed = run_openrlhf(tmp_path, val=rows(TASKS[:2]), **more)
    assert sorted(step for step in result.metrics if step <= STEPS) == list(range(1, STEPS + 1))
    assert result.metrics[STEPS]["train/coevo/searches"] == 2
    assert any(row["info"]["coevo_distilled"] for row in result.actor)
    texts = {one["text"] for e in events(result, "population_changed") for one in e["added"]}
    wanted = [tokens(task.question, text) for task in TASKS for text in texts]
    assert all(prompt_of(row) in wanted for row in result.actor)
    assert resumed.returncode == 0, resumed.tail
    assert min(resumed.metrics) > 3
    assert "co-evolution starts anew" not in resumed.output
    assert len(events(resumed, "resumed")) == 1
    assert len(events(resumed, "training_ended")) == 2
