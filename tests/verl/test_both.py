"""Check both methods at once in the unmodified main_ppo, and a run killed in its search and resumed.

Stand-ins: platform, rollout server (its rows depend on weights, prompt and seed alone), and the
reflection model's HTTP server.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from helpers.verl_run import Result, VerlRun, run_verl
from helpers.verl_world import BOTH, events, reflection, teach
from standins.openai_server import openai_server

pytestmark = pytest.mark.long

STEPS = 6
KILLED_AFTER = 4


def arguments(base: str) -> dict[str, Any]:
    return {
        "overrides": [
            *(*BOTH, *reflection(base)),
            *("trainer.total_epochs=3", "trainer.save_freq=2"),
        ],
        "env": {"OPENAI_API_KEY": "sk-test"},
    }


@dataclass(frozen=True)
class Runs:
    """An undisturbed run, a killed one, and the killed one's second start."""

    whole: Result
    killed: Result
    resumed: Result
    requests_whole: int
    requests_interrupted: int


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    with openai_server(teach) as first:
        whole = run_verl(tmp_path_factory.mktemp("whole"), **arguments(first.base))
    assert whole.returncode == 0, whole.tail
    folder = tmp_path_factory.mktemp("interrupted")
    with openai_server(teach) as second:
        with VerlRun(folder, **arguments(second.base)) as run:
            killed = run.kill_when(in_its_second_search)
        resumed = run_verl(folder, **arguments(second.base))
    assert resumed.returncode == 0, resumed.tail
    return Runs(whole, killed, resumed, len(first.requests), len(second.requests))


@pytest.fixture
def whole(runs: Runs) -> Result:
    return runs.whole


def in_its_second_search(run: VerlRun) -> bool:
    """Tell whether a checkpoint was written and rollouts for the search after it have begun."""
    return any(
        event["event"] == "generate"
        and event["global_steps"] == KILLED_AFTER
        and event["temperature"] != 1.0
        for event in run.server_log()
    )


def test_each_method_did_its_work(whole: Result) -> None:
    last = whole.metrics[STEPS]
    assert last["coevo/searches"] == 2
    assert last["coevo/evolutions"] >= 1
    assert any(m["coevo/templated_fraction"] > 0 for m in whole.metrics.values())


def test_a_killed_run_goes_on_with_the_same_decisions(runs: Runs) -> None:
    assert sorted(runs.resumed.metrics) == [KILLED_AFTER + 1, STEPS]
    for step in range(1, STEPS + 1):
        start = runs.killed if step <= KILLED_AFTER else runs.resumed
        assert trained(start, step) == trained(runs.whole, step), step
    assert population(runs.resumed) == population(runs.whole)
    assert templates(runs.resumed) == templates(runs.whole)


def test_replies_are_not_paid_for_twice(runs: Runs) -> None:
    """Only calls in flight at the kill are repeated: at most eight."""
    assert events(runs.resumed, "resumed")
    assert runs.requests_interrupted <= runs.requests_whole + 8


def trained(result: Result, step: int) -> Counter[Any]:
    """Return what the loss got, rounded: sums over a batch in another order differ in the last bits."""
    return Counter(
        (
            tuple(row["prompts"]),
            tuple(row["responses"]),
            tuple(round(value, 3) for value in row["advantages"]),
        )
        for row in result.actor
        if row["global_steps"] == step and not row["uid"].startswith("pad")
    )


def state(result: Result) -> dict[str, Any]:
    path = Path(result.folder) / "checkpoints" / "coevo" / "state.json"
    plugins: dict[str, Any] = json.loads(path.read_text())["plugins"]
    return plugins


def population(result: Result) -> list[Any]:
    return [
        (member["instruction"]["text"], member["window"])
        for member in state(result)["inspo"]["population"]
    ]


def templates(result: Result) -> list[Any]:
    """Return every search's pool and scores, once each: an interrupted search is not in the journal."""
    return [
        [(one["text"], one["dev_scores"]) for one in event["pool"]]
        for event in events(result, "templates_assigned")
    ]
