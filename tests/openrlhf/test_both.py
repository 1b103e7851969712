"""Check both methods at once in the unmodified train_ppo_ray, by the wrapper's flags, and its evaluation.

Stand-ins: vLLM, flash-attn, the device, and the reflection model's HTTP server.
"""

from __future__ import annotations

import pytest

from helpers.openrlhf_run import TASKS, Result, rows, run_openrlhf
from helpers.openrlhf_world import BOTH, events, reflection, teach
from helpers.probed import check_that_the_model_was_asked
from standins.openai_server import openai_server

STEPS = 6


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    with openai_server(teach) as server:
        result = run_openrlhf(
            tmp_path_factory.mktemp("both"),
            module="prompt_coevo.adapters.openrlhf",
            val=rows(TASKS[:2]),
            overrides=[
                *(*BOTH, *reflection(server.base)),
                *("--coevo.preflight.reflection", "refuse", "--coevo.reflection.timeout_s=1000"),
                "--coevo.reflection.total_timeout_s=1000",
                *("--train.num_episodes=3", "--eval.steps=3", "--eval.temperature=0.5"),
            ],
            env={"OPENAI_API_KEY": "sk-test"},
        )
    assert result.returncode == 0, result.tail
    return result


def test_the_reflection_model_was_asked_before_the_first_step(run: Result) -> None:
    check_that_the_model_was_asked(events(run))


def test_each_method_did_its_work(run: Result) -> None:
    last = run.metrics[STEPS]
    assert last["train/coevo/searches"] == 2
    assert last["train/coevo/evolutions"] >= 1
    assert any(event["removed"] for event in events(run, "population_changed"))
    assert any(m["train/coevo/templated_fraction"] > 0 for m in run.metrics.values())


def test_the_evaluation_finds_its_data_sources(run: Result) -> None:
    """OpenRLHF looks data sources up by the prompt; it finds them although an instruction was placed."""
    for step in (3, 6):
        assert "eval/eval_default_pass1" in run.metrics[step]


def test_no_secret_is_printed(run: Result) -> None:
    assert "sk-test" not in run.output
