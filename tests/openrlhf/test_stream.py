"""Check the stream, which never stops training, in the unmodified train_ppo_ray."""

from __future__ import annotations

import pytest

from helpers.openrlhf_run import TASKS, Result, run_openrlhf
from helpers.openrlhf_world import events, prompt_of, response_of, teach, tokens
from helpers.planted_secrets import found_below, saying_all, variables
from helpers.ray_run import read_json_lines
from helpers.streamed import Sample, check_trained_as_sampled
from standins.openai_server import openai_server

BATCH = 16


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    with openai_server(saying_all(teach)) as server:
        result = run_openrlhf(
            tmp_path_factory.mktemp("stream"),
            module="prompt_coevo.adapters.openrlhf",
            overrides=[
                "--coevo.method",
                "stream",
                *("--coevo.stream.tau", "0.5", "--train.num_episodes=3"),
                *("--coevo.reflection.model", "openai/teacher"),
                *("--coevo.preflight.reflection", "off"),
            ],
            env=variables(server.base),
        )
    assert result.returncode == 0, result.tail
    return result


def test_templates_are_found_in_the_training_groups(run: Result) -> None:
    assert {event["temperature"] for event in run.generated()} == {1.0}
    last = run.metrics[max(run.metrics)]
    assert any(m["train/coevo/templated_fraction"] > 0 for m in run.metrics.values())
    assert last["train/coevo/reflection_calls"] > 0
    verdicts = [
        event
        for event in [*events(run, "template_joined"), *events(run, "template_dropped")]
        if event["step"] < max(run.metrics)  # what follows the last step is in no metrics
    ]
    assert len(verdicts) == sum(
        last[f"train/coevo/{name}"] for name in ("templates_joined", "templates_dropped")
    )


def test_no_byte_of_the_run_and_its_log_holds_a_secret(run: Result) -> None:
    assert found_below(run.folder) == []


def test_what_is_in_use_goes_to_the_hosts_tracker(run: Result) -> None:
    texts = read_json_lines(run.folder / "start0" / "texts.jsonl")
    assert {line["tag"] for line in texts} == {"coevo/in_use", "coevo/lineage"}
    assert any("in its trial" in line["text"] for line in texts)


def test_what_is_sampled_is_trained_on_without_its_template(run: Result) -> None:
    questions = [tokens(task.question) for task in TASKS]
    assert sorted(run.metrics) == [1, 2, 3, 4, 5, 6]
    for step, metrics in run.metrics.items():
        generated = [
            Sample(step, event["prompt_ids"], event["response_ids"])
            for event in run.generated()
            if event["version"] == step - 1
        ]
        trained = [
            Sample(step, prompt_of(row), response_of(row))
            for row in run.actor
            if row["step"] == step
        ]
        assert len(trained) == BATCH
        check_trained_as_sampled(
            generated, trained, questions, metrics["train/coevo/templated_fraction"]
        )


def test_failures_under_templates_are_not_punished(run: Result) -> None:
    """Otherwise every row of a batch with different rewards would have an advantage."""
    batches: dict[int, list[float]] = {}
    for row in run.actor:
        batches.setdefault(row["step"], []).append(row["advantages"][0])
    found = [batch for batch in batches.values() if max(batch) > 0]
    assert any(0 in batch for batch in found)
    assert any(min(batch) < 0 for batch in found)
