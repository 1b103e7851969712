"""Check VeRL's asynchronous trainers in the unmodified main_ppo.

Stand-ins: platform, rollout server, the reflection model's HTTP server, and, where the rollout has separate
devices, the transfer of the weights. Sampling times depend on the machine's load, so two runs do not
sample alike; tests check what must hold in any order.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from helpers.verl_run import Result, VerlRun, rows, run_verl
from helpers.verl_world import BOTH, MANY, by_group, events, reflection, teach, tokens
from standins.openai_server import openai_server

BATCH = (
    "trainer.total_epochs=3",
    "data.train_batch_size=8",
    "actor_rollout_ref.actor.ppo_mini_batch_size=8",
)
COLOCATED = ("trainer.v1.trainer_mode=colocate_async", *BATCH)
TWO_OF_EACH = (
    "trainer.n_gpus_per_node=2",
    "actor_rollout_ref.rollout.agent.num_workers=2",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=2",
)
SEPARATE = (
    "trainer.v1.trainer_mode=separate_async",
    "trainer.v1.separate_async.parameter_sync_step=2",
    "actor_rollout_ref.rollout.nnodes=1",
    "actor_rollout_ref.rollout.n_gpus_per_node=1",
    "actor_rollout_ref.rollout.checkpoint_engine.backend=by_ray",
    *BATCH[:2],
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
)
STREAM = ("+coevo=stream", "coevo.stream.tau=0.5")
STEPS = 6
ENVIRONMENT = {"OPENAI_API_KEY": "sk-test"}


def once(folder: Path, *overrides: str, **arguments: Any) -> Result:
    with openai_server(teach) as server:
        asked = [*overrides, *reflection(server.base)]
        result = run_verl(folder, train=rows(MANY), overrides=asked, env=ENVIRONMENT, **arguments)
    assert result.returncode == 0, result.tail
    return result


def check_training(result: Result, steps: range) -> None:
    """Check whole groups of the batch's size, each on its question, and that VeRL's count of stale weights
    is ours."""
    assert sorted(result.metrics) == list(steps)
    groups = by_group(result.actor)  # by the step in which they were sent
    assert len(groups) == len(steps) * 8
    assert {len(group) for group in groups.values()} == {4}
    for metrics in result.metrics.values():
        worst = metrics["training/off_policy/trajectory_staleness_worst/mean"]
        assert metrics["coevo/staleness"] == pytest.approx(worst)


def check_staleness(result: Result) -> None:
    """Check that one batch is sampled ahead."""
    ages = [metrics["coevo/staleness"] for metrics in result.metrics.values()]
    assert 0 < max(ages) <= 2


def trained_on(result: Result) -> set[tuple[int, ...]]:
    return {tuple(row["prompts"]) for row in result.actor if not row["uid"].startswith("pad")}


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return once(tmp_path_factory.mktemp("s"), *STREAM, *COLOCATED, "trainer.test_freq=2")


def test_the_streaming_search_beside_training_that_samples_ahead(stream: Result) -> None:
    check_training(stream, range(1, STEPS + 1))
    check_staleness(stream)
    questions = {tuple(tokens(task.question)) for task in MANY}
    assert trained_on(stream) <= questions
    assert any(metrics["coevo/templated_fraction"] > 0 for metrics in stream.metrics.values())


def test_batches_and_validations_are_whole(stream: Result) -> None:
    trained = [row for row in stream.actor if not row["uid"].startswith("pad")]
    validated = [event for event in stream.generated() if event["temperature"] == 0]
    assert len(trained) == STEPS * 32
    assert len(validated) >= 2 * STEPS / 2  # two questions, except for restarted ones
    val = [name for name in stream.metrics[2] if name.startswith("val-core")]
    assert val


def test_what_was_cut_off_by_a_step_is_sampled_to_its_end(stream: Result) -> None:
    """The servers stop for every step, and the samples they were generating continue under the next
    weights."""
    assert Counter(event["event"] for event in stream.server)["abort"] >= STEPS
    assert not events(stream, "groups_dropped")


@pytest.mark.long
def test_a_search_in_waves_with_both_methods_and_two_of_everything(tmp_path: Path) -> None:
    result = once(tmp_path, *BOTH, *COLOCATED, *TWO_OF_EACH, gpus=2)
    check_training(result, range(1, STEPS + 1))
    check_staleness(result)
    check_methods(result.metrics[STEPS])
    assert {event["replica"] for event in result.generated()} == {0, 1}


def check_methods(last: Mapping[str, float]) -> None:
    assert last["coevo/searches"] == 2
    assert last["coevo/evolutions"] >= 1


@pytest.mark.long
def test_with_devices_of_its_own_the_rollout_goes_on_while_a_step_trains(tmp_path: Path) -> None:
    """Also checks a step of two parts, each of whole groups."""
    result = once(tmp_path, *BOTH, *SEPARATE, gpus=2)
    check_training(result, range(1, STEPS + 1))
    check_staleness(result)
    check_methods(result.metrics[STEPS])


@pytest.mark.long
@pytest.mark.parametrize(("mode", "gpus"), [(COLOCATED, 1), (SEPARATE, 2)])
def test_a_killed_run_goes_on_with_what_was_sampled_ahead(
    tmp_path: Path, mode: tuple[str, ...], gpus: int
) -> None:
    overrides = [*BOTH, *mode, "trainer.save_freq=2"]
    with openai_server(teach) as server:
        arguments: dict[str, Any] = {
            "train": rows(MANY),
            "overrides": [*overrides, *reflection(server.base)],
            "env": ENVIRONMENT,
            "gpus": gpus,
        }
        with VerlRun(tmp_path, **arguments) as run:
            killed = run.kill_when(lambda run: in_its_second_search(run))
        plans = json.loads((tmp_path / "checkpoints/global_step_4/coevo_plans.json").read_text())
        resumed = run_verl(tmp_path, **arguments)
    assert killed.metrics
    assert resumed.returncode == 0, resumed.tail
    check_training(resumed, range(5, STEPS + 1))
    check_methods(resumed.metrics[STEPS])
    # The batch that was sampled ahead is trained on, under its own plan or planned again.
    assert len(plans["groups"]) >= 8
    assert not events(resumed, "groups_dropped")
    assert "without +coevo" not in resumed.output


def in_its_second_search(run: VerlRun) -> bool:
    """Tell whether a checkpoint was written and rollouts for the search after it have begun."""
    return any(
        event["event"] == "generate" and event["global_steps"] == 4 and event["temperature"] != 1.0
        for event in run.server_log()
    )


@pytest.mark.long
def test_a_run_that_began_without_the_flag_is_taken_up(tmp_path: Path) -> None:
    """What its rollouts sampled ahead ran under is unknown, so new rollouts replace them."""
    begun = run_verl(
        tmp_path,
        train=rows(MANY),
        overrides=[*SEPARATE, "trainer.save_freq=2", "trainer.total_training_steps=2"],
        env={
            "COEVO_TEST_POLL": "8"
        },  # so long that the rollouts sampled ahead finish before the end
        gpus=2,
    )
    assert begun.returncode == 0, begun.tail
    result = once(tmp_path, *BOTH, *SEPARATE, gpus=2)
    check_training(result, range(3, STEPS + 1))
    restored, started_again, dropped = (
        int(found[1]) if (found := re.search(text, result.output)) else 0
        for text in (
            r"Restored (\d+) training prompt groups",
            r"Re-issued (\d+) in-flight prompts",
            r"holds (\d+) groups that were sampled without \+coevo; they are dropped",
        )
    )
    assert dropped == restored - started_again > 0
