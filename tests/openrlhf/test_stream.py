"""The search that never stops training in the unmodified train_ppo_ray: no rollout but training's."""

from __future__ import annotations

import pytest

from helpers.openrlhf_run import run_openrlhf
from helpers.openrlhf_world import events, reflection, teach
from standins.openai_server import openai_server


def test_templates_are_found_in_the_training_groups(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with openai_server(teach) as server:
        run = run_openrlhf(
            tmp_path_factory.mktemp("stream"),
            module="prompt_coevo.adapters.openrlhf",
            overrides=[
                *("--coevo.method", "p2o", "--coevo.p2o.search_backend", "stream"),
                *("--coevo.p2o.tau", "0.5", *reflection(server.base), "--train.num_episodes=3"),
            ],
            env={"OPENAI_API_KEY": "sk-test"},
        )
    assert run.returncode == 0, run.tail
    last = run.metrics[max(run.metrics)]
    assert last["train/coevo/search_rollouts"] == 0
    assert any(m["train/coevo/templated_fraction"] > 0 for m in run.metrics.values())
    assert last["train/coevo/reflection_calls"] > 0
    verdicts = [*events(run, "template_joined"), *events(run, "template_dropped")]
    assert len(verdicts) == sum(
        last[f"train/coevo/{name}"] for name in ("templates_joined", "templates_dropped")
    )
