"""The search that never stops training in the unmodified main_ppo: no rollout but training's."""

from __future__ import annotations

import pytest

from helpers.verl_run import rows, run_verl
from helpers.verl_world import MANY, events, reflection, teach
from standins.openai_server import openai_server


def test_templates_are_found_in_the_training_groups(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with openai_server(teach) as server:
        run = run_verl(
            tmp_path_factory.mktemp("stream"),
            train=rows(MANY),
            overrides=[
                *("+coevo=p2o", "coevo.p2o.search_backend=stream", "coevo.p2o.tau=0.5"),
                *reflection(server.base),
                "trainer.total_epochs=3",
                "data.train_batch_size=8",
                "actor_rollout_ref.actor.ppo_mini_batch_size=8",
            ],
            env={"OPENAI_API_KEY": "sk-test"},
        )
    assert run.returncode == 0, run.tail
    assert {event["temperature"] for event in run.generated()} == {1.0}
    assert run.metrics[6]["coevo/search_rollouts"] == 0
    assert any(run.metrics[step]["coevo/templated_fraction"] > 0 for step in range(2, 7))
    verdicts = [*events(run, "template_joined"), *events(run, "template_dropped")]
    assert len(verdicts) == sum(
        run.metrics[6][f"coevo/{name}"] for name in ("templates_joined", "templates_dropped")
    )
    assert run.metrics[6]["coevo/reflection_calls"] > 0
