"""Check the stream, which never stops training, in the unmodified main_ppo."""

from __future__ import annotations

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from helpers.planted_secrets import found_below, saying_all, variables
from helpers.streamed import Sample, check_trained_as_sampled
from helpers.verl_run import Result, rows, run_verl
from helpers.verl_world import MANY, events, teach, tokens
from standins.openai_server import openai_server

BATCH = 32


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("stream")
    with openai_server(saying_all(teach)) as server:
        result = run_verl(
            folder,
            train=rows(MANY),
            overrides=[
                *("+coevo=stream", "coevo.stream.tau=0.5"),
                *("coevo.reflection.model=openai/teacher", "coevo.preflight.reflection=off"),
                "trainer.total_epochs=3",
                "trainer.logger=[console,file,tensorboard]",
                "data.train_batch_size=8",
                "actor_rollout_ref.actor.ppo_mini_batch_size=8",
            ],
            env={**variables(server.base), "TENSORBOARD_DIR": str(folder / "tensorboard")},
        )
    assert result.returncode == 0, result.tail
    return result


def test_templates_are_found_in_the_training_groups(run: Result) -> None:
    assert {event["temperature"] for event in run.generated()} == {1.0}
    assert any(run.metrics[step]["coevo/templated_fraction"] > 0 for step in range(2, 7))
    verdicts = [*events(run, "template_joined"), *events(run, "template_dropped")]
    assert len(verdicts) == sum(
        run.metrics[6][f"coevo/{name}"] for name in ("templates_joined", "templates_dropped")
    )
    assert run.metrics[6]["coevo/reflection_calls"] > 0


def test_no_byte_of_the_run_and_its_log_holds_a_secret(run: Result) -> None:
    assert found_below(run.folder) == []


def test_what_is_in_use_goes_to_the_hosts_tracker(run: Result) -> None:
    read = EventAccumulator(str(run.folder / "tensorboard"), size_guidance={"tensors": 0})
    read.Reload()
    last = read.Tensors("coevo/lineage/text_summary")[-1]
    assert last.step == 6
    assert "in its trial" in last.tensor_proto.string_val[0].decode()


def test_what_is_sampled_is_trained_on_without_its_template(run: Result) -> None:
    questions = [tokens(task.question) for task in MANY]
    assert sorted(run.metrics) == [1, 2, 3, 4, 5, 6]
    for step, metrics in run.metrics.items():
        generated = [
            Sample(step, event["prompt_ids"], event["response_ids"])
            for event in run.generated()
            if event["global_steps"] == step - 1
        ]
        trained = [
            Sample(step, row["prompts"], row["responses"])
            for row in run.actor
            if row["global_steps"] == step and not row["uid"].startswith("pad")
        ]
        assert len(trained) == BATCH
        check_trained_as_sampled(generated, trained, questions, metrics["coevo/templated_fraction"])


def test_failures_under_templates_are_not_punished(run: Result) -> None:
    """Otherwise no advantage of a group with different rewards would be 0."""
    groups: dict[str, list[float]] = {}
    for row in run.actor:
        if not row["uid"].startswith("pad"):
            groups.setdefault(row["uid"], []).append(row["advantages"][0])
    found = [group for group in groups.values() if max(group) > 0]
    assert any(0 in group for group in found)
    assert any(min(group) < 0 for group in found)
