"""A run that is killed in its second search goes on where its checkpoint was; and the asynchronous
trainer.

Stand-ins: vLLM, flash-attn, the device, and the reflection model's HTTP server. The stand-in for vLLM
counts the weights it got anew after a start, and its rows depend on that number: so rows after a
resumption cannot be compared with those of a run that was not interrupted.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from helpers.openrlhf_run import OpenRLHFRun, Result, run_openrlhf
from helpers.openrlhf_world import INSPO, P2O, events, reflection, teach
from standins.openai_server import openai_server

STEPS = 6
KILLED_AFTER = 4


def arguments(base: str, *more: str) -> dict[str, Any]:
    return {
        "module": "prompt_coevo.adapters.openrlhf",
        "overrides": [
            *("--coevo.method", "both", *P2O, *INSPO, *reflection(base)),
            *("--train.num_episodes=3", "--ckpt.save_steps=2", *more),
        ],
        "env": {"OPENAI_API_KEY": "sk-test"},
    }


def in_its_second_search(run: OpenRLHFRun) -> bool:
    """A checkpoint was written, and rollouts for the search after it have begun."""
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


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    with openai_server(teach) as server:
        whole = run_openrlhf(tmp_path / "whole", **arguments(server.base))
    assert whole.returncode == 0, whole.tail
    with openai_server(teach) as server:
        with OpenRLHFRun(tmp_path / "interrupted", **arguments(server.base)) as run:
            killed = run.kill_when(in_its_second_search)
        resumed = run_openrlhf(tmp_path / "interrupted", **arguments(server.base))
    assert resumed.returncode == 0, resumed.tail
    for step in range(1, KILLED_AFTER + 1):
        assert trained(killed, step) == trained(whole, step), step
    assert sorted(resumed.metrics) == [KILLED_AFTER + 1, STEPS]
    last = resumed.metrics[STEPS]
    assert (
        last["train/coevo/searches"] == 2
    )  # the interrupted one was repeated, the first one was not
    assert last["train/coevo/train_rollouts"] == STEPS * 16
    assert len(events(resumed, "templates_assigned")) == 2
    first = [events(result, "templates_assigned")[0]["pool"] for result in (resumed, whole)]
    assert [one["text"] for one in first[0]] == [one["text"] for one in first[1]]
    assert len(events(resumed, "resumed")) == 1


def test_the_asynchronous_trainer(tmp_path: Path) -> None:
    with openai_server(teach) as server:
        result = run_openrlhf(tmp_path, **arguments(server.base, "--train.async_enable"))
    assert result.returncode == 0, result.tail
    assert sorted(result.metrics) == list(range(1, STEPS + 1))
    assert result.metrics[STEPS]["train/coevo/searches"] == 2
    assert events(result, "training_ended")
    for row in result.actor:
        assert row["prompts"].count("means") == 0
