"""Check both methods in the unmodified train_ppo_ray on the real vLLM, in its build for CPUs.

Run by `python dev.py nox -s openrlhf_vllm`. Stand-ins: flash-attn, the device, NCCL, and the reflection
model's HTTP server.
"""

from __future__ import annotations

from typing import Any

import pytest

from helpers.openrlhf_run import Result, run_openrlhf
from helpers.openrlhf_world import (
    BOTH,
    TOKENIZER,
    by_group,
    events,
    prompt_of,
    reflection,
    response_of,
    sampled_under,
    teach,
)
from helpers.real_vllm import why_not
from helpers.wide_policy import write_wide_policy
from standins.openai_server import openai_server

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

STEPS = 6
CLOSE = 1e-4
MEANS = TOKENIZER.convert_tokens_to_ids("means")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("real")
    with openai_server(teach) as server:
        result = run_openrlhf(
            folder / "run",
            module="prompt_coevo.adapters.openrlhf",
            model=write_wide_policy(folder / "policy"),
            overrides=[
                *(*BOTH, *reflection(server.base)),
                *("--train.num_episodes=3", "--algo.advantage.is_correction_level=token"),
            ],
            env={"OPENAI_API_KEY": "sk-test"},
            real_vllm=True,
        )
    assert result.returncode == 0, result.tail
    return result


def test_each_method_did_its_work(run: Result) -> None:
    last = run.metrics[STEPS]
    assert last["train/coevo/searches"] == 2
    assert last["train/coevo/evolutions"] >= 1
    assert any(m["train/coevo/templated_fraction"] > 0 for m in run.metrics.values())


def test_the_engine_gets_new_weights_after_each_step(run: Result) -> None:
    checksums = [event["checksum"] for event in run.weights()]
    assert len(checksums) == STEPS
    # A step without any reward moves nothing: in the first epoch there are no templates yet.
    assert len(set(checksums)) > STEPS // 2


def test_templates_are_sampled_under_and_not_trained_on(run: Result) -> None:
    templated = 0
    for row in run.actor:
        assert MEANS not in prompt_of(row)
        origins = sampled_under(run, row)
        assert origins
        templated += all(MEANS in origin for origin in origins)
    assert templated > 0
    assert max(len(group) for group in by_group(run).values()) == 4


def test_engine_and_actor_agree_on_log_probs(run: Result) -> None:
    """Compares samples without a template; under one the log-probs differ, which stays out of the loss."""
    compared, differ = 0, 0.0
    for row in run.actor:
        start = len(prompt_of(row)) - 1
        actor = row["action_log_probs"][start:]
        given: list[dict[str, Any]] = [
            event
            for event in run.generated()
            if event["version"] == row["step"] - 1 and event["response_ids"] == response_of(row)
        ]
        under = {MEANS in event["prompt_ids"] for event in given}
        values = given[0]["log_probs"]
        if under == {False}:
            compared += 1
            assert actor[: len(values)] == pytest.approx(values, abs=CLOSE)
        elif under == {True}:
            pairs = zip(actor, values, strict=False)
            differ = max(differ, *(abs(a - b) for a, b in pairs))
        assert row["rollout_log_probs"][start:] == pytest.approx(actor, abs=CLOSE)
    assert compared > 16
    assert differ > 0.1


def test_the_journal_says_what_was_done(run: Result) -> None:
    assert events(run, "templates_assigned")
    assert events(run, "reply")
    assert events(run, "training_ended")
