"""Check two of everything with both methods: training ranks, rollout replicas, agent workers, storage
units.

Stand-ins: platform, rollout server, the reflection model's HTTP server. Which replica serves a request
depends on its load, so two such runs do not sample alike.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from helpers.verl_run import Result, rows, run_verl
from helpers.verl_world import BOTH, MANY, by_group, events, reflection, teach, tokens
from standins.openai_server import openai_server

STEPS = 6
TWO_OF_EACH = (
    "trainer.n_gpus_per_node=2",
    "actor_rollout_ref.rollout.agent.num_workers=2",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=2",
    "data.train_batch_size=8",
    "actor_rollout_ref.actor.ppo_mini_batch_size=8",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("many")
    with openai_server(teach) as server:
        result = run_verl(
            folder,
            train=rows(MANY),
            overrides=[
                *(*BOTH, *reflection(server.base), *TWO_OF_EACH),
                *("trainer.total_epochs=3", f"trainer.rollout_data_dir={folder / 'dumps'}"),
            ],
            env={"OPENAI_API_KEY": "sk-test"},
            gpus=2,
        )
    assert result.returncode == 0, result.tail
    return result


def test_all_rollouts_come(run: Result) -> None:
    assert sorted(run.metrics) == list(range(1, STEPS + 1))
    groups = by_group(run.actor)
    assert len(groups) == STEPS * 8
    assert {len(group) for group in groups.values()} == {4}
    assert "Error in _run_prompt" not in run.output


def test_both_of_each_worked(run: Result) -> None:
    assert {event["replica"] for event in run.generated()} == {0, 1}
    workers = re.findall(r"\(AgentLoopWorkerTQ pid=(\d+)\)", run.output)
    assert len(set(workers)) == 2


def test_every_replica_has_the_same_weights(run: Result) -> None:
    weights = defaultdict(list)
    for event in run.weights():
        weights[event["global_steps"]].append((event["replica"], event["checksum"]))
    assert sorted(weights) == list(range(STEPS + 1))
    for loaded in weights.values():
        assert sorted(replica for replica, _ in loaded) == [0, 1]
        assert len({checksum for _, checksum in loaded}) == 1
    assert len({loaded[0][1] for loaded in weights.values()}) == STEPS + 1


def test_each_method_did_its_work(run: Result) -> None:
    last = run.metrics[STEPS]
    assert last["coevo/searches"] == 2
    assert last["coevo/evolutions"] >= 1
    assert last["coevo/staleness"] == 0
    spent = sum(event["rollouts"] for event in events(run, "templates_assigned"))
    assert 0 < spent <= last["coevo/search_rollouts"]


def test_all_is_trained_on_the_question_under_its_instruction(run: Result) -> None:
    """VeRL's dumps have the texts that rollouts ran under."""
    texts = {task.question for task in MANY}
    templated = 0
    dumped = [
        json.loads(line)
        for step in range(1, STEPS + 1)
        for line in (Path(run.folder) / "dumps" / f"{step}.jsonl").read_text().splitlines()
    ]
    assert len(dumped) == STEPS * 32
    for row in dumped:
        question = next(text for text in texts if text in row["input"])
        assert row["coevo_instruction"] in row["input"]
        if row["coevo_template"]:
            templated += 1
            assert row["coevo_template"] not in row["input"]
            assert len(tokens(question, row["coevo_instruction"])) < 128
    fractions = [metrics["coevo/templated_fraction"] for metrics in run.metrics.values()]
    assert templated == round(32 * sum(fractions)) > 0
