"""Check P2O in the unmodified main_ppo on the real vLLM, in its build for CPUs.

Run by `python dev.py nox -s verl_vllm`. Stand-ins: the platform, and the reflection model's HTTP server.
Weights travel in VeRL's own way; the engine starts with random ones, so a lost transfer would show.
"""

from __future__ import annotations

import pytest

from helpers.real_vllm import why_not
from helpers.verl_run import Result, rows, run_verl
from helpers.verl_world import MANY, P2O, TOKENIZER, by_group, events, reflection, sampled, teach
from helpers.wide_policy import write_wide_policy
from standins.openai_server import openai_server

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

CLOSE = 1e-4
MEANS = TOKENIZER.convert_tokens_to_ids("means")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("real")
    with openai_server(teach) as server:
        result = run_verl(
            folder / "run",
            train=rows(MANY),
            model=write_wide_policy(folder / "policy"),
            overrides=[
                "+coevo=p2o",
                *P2O,
                *reflection(server.base),
                *("coevo.reflection.timeout_s=1000", "coevo.reflection.total_timeout_s=1000"),
                *("trainer.total_epochs=2", "data.train_batch_size=8"),
                "actor_rollout_ref.actor.ppo_mini_batch_size=8",
            ],
            env={"OPENAI_API_KEY": "sk-test"},
            real_vllm=True,
        )
    assert result.returncode == 0, result.tail
    return result


def test_an_epoch_a_search_and_an_epoch_under_templates(run: Result) -> None:
    assert sorted(run.metrics) == [1, 2, 3, 4]
    assert [run.metrics[step]["coevo/searches"] for step in (1, 2, 3, 4)] == [0, 0, 1, 1]
    assert [run.metrics[step]["coevo/templated_fraction"] for step in (1, 2)] == [0, 0]
    assert any(run.metrics[step]["coevo/templated_fraction"] > 0 for step in (3, 4))
    assert events(run, "training_ended")


def test_templates_are_sampled_under_and_not_trained_on(run: Result) -> None:
    templated = 0
    for group in by_group(run.actor).values():
        for row in group:
            assert MEANS not in row["prompts"]
            origins = sampled(run, row)
            assert origins
            templated += all(MEANS in event["prompt_ids"] for event in origins)
    assert templated > 0


def test_engine_and_actor_agree_on_log_probs(run: Result) -> None:
    """Compares samples without a template; under one the log-probs differ, which stays out of the loss."""
    compared, differ = 0, 0.0
    for group in by_group(run.actor).values():
        for row in group:
            given = sampled(run, row)
            under = {MEANS in event["prompt_ids"] for event in given}
            values = given[0]["log_probs"]
            if under == {False}:
                compared += 1
                assert row["old_log_probs"] == pytest.approx(values, abs=CLOSE)
            elif under == {True}:
                differences = zip(row["old_log_probs"], values, strict=True)
                differ = max(differ, *(abs(a - b) for a, b in differences))
    for metrics in run.metrics.values():  # what VeRL's correction finds
        for name in ("log_ppl_diff_max", "log_ppl_diff_min"):
            assert metrics[f"rollout_corr/{name}"] == pytest.approx(0.0, abs=CLOSE)
    assert compared > 32
    assert differ > 0.1
