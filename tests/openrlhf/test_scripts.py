"""Check a typical reward file: a shaped reward, with correctness in `extra_logs`.

Stand-ins: vLLM, flash-attn, the device, and the reflection model's HTTP server.
"""

from __future__ import annotations

import pytest

from helpers.openrlhf_run import TASKS, Result, run_openrlhf
from helpers.openrlhf_world import by_group, prompt_of, reflection, teach, tokens
from standins.openai_server import openai_server


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    with openai_server(teach) as server:
        result = run_openrlhf(
            tmp_path_factory.mktemp("script"),
            module="prompt_coevo.adapters.openrlhf",
            reward="distinct_words",
            overrides=[
                *("--coevo.method", "stream", "--coevo.success.reward", "acc"),
                *(*reflection(server.base), "--train.num_episodes=3"),
            ],
            env={"OPENAI_API_KEY": "sk-test"},
        )
    assert result.returncode == 0, result.tail
    return result


def test_questions_are_hard_by_the_named_key_and_templates_are_placed(run: Result) -> None:
    """By the shaped reward, which gives every answer about .4, no question would be hard."""
    last = run.metrics[max(run.metrics)]
    assert last["train/coevo/hard_samples"] > 0
    assert last["train/coevo/reflection_calls"] > 0
    assert any(m["train/coevo/templated_fraction"] > 0 for m in run.metrics.values())


def test_the_loss_has_the_shaped_reward_on_the_question(run: Result) -> None:
    questions = [tokens(task.question) for task in TASKS]
    assert all(prompt_of(row) in questions for row in run.actor)
    spread = [
        {round(max(row["advantages"], key=abs), 3) for row in rows}
        for rows in by_group(run).values()
    ]
    assert any(len(values) > 2 for values in spread)
