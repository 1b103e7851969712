"""Check a typical run: DAPO's settings, and a reward dictionary with `acc` beside a score from -1 to 1 that
counts words.

Stand-ins: platform, rollout server, and the reflection model's HTTP server.
"""

from __future__ import annotations

import pytest

from helpers.verl_run import WORLD, Result, rows, run_verl
from helpers.verl_world import MANY, reflection, teach, tokens
from standins.openai_server import openai_server
from worlds.pairs.splits import make_splits

STEPS = 6
EASY = [task for task in make_splits(WORLD, 0, 64, 8).train if task.kind == "easy"][:8]
TASKS = [*MANY[:8], *EASY]
HARD = [tokens(task.question) for task in MANY[:8]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    with openai_server(teach) as server:
        result = run_verl(
            tmp_path_factory.mktemp("dapo"),
            train=rows(TASKS),
            overrides=[
                *("+coevo=stream", "coevo.success.reward=acc", *reflection(server.base)),
                "reward.custom_reward_function.name=dapo",
                *("algorithm.filter_groups.enable=True", "algorithm.filter_groups.metric=acc"),
                "actor_rollout_ref.rollout.n=8",
                "actor_rollout_ref.actor.clip_ratio_high=0.28",
                "actor_rollout_ref.actor.loss_agg_mode=token-mean",
                *("data.train_batch_size=4", "trainer.total_epochs=8"),
                f"trainer.total_training_steps={STEPS}",
            ],
            env={"OPENAI_API_KEY": "sk-test"},
        )
    assert result.returncode == 0, result.tail
    return result


def test_questions_are_hard_by_the_named_key_and_templates_are_placed(run: Result) -> None:
    last = run.metrics[STEPS]
    assert last["coevo/hard_samples"] > 0
    assert last["coevo/reflection_calls"] > 0
    assert any(m["coevo/templated_fraction"] > 0 for m in run.metrics.values())
    assert "outside success.low" not in run.output  # `acc` is on the scale, the score is not


def test_groups_are_dropped_by_the_trainer_and_all_are_counted(run: Result) -> None:
    evicted = "training/filter_groups/evicted_samples"  # a step that evicts none has no such number
    assert sum(m.get(evicted, 0) for m in run.metrics.values()) > 0
    assert run.metrics[STEPS]["coevo/train_rollouts"] == len(run.generated())


def test_the_loss_has_the_trainers_score_on_the_question(run: Result) -> None:
    questions = [tokens(task.question) for task in TASKS]
    trained = [row for row in run.actor if not row["uid"].startswith("pad")]
    assert all(row["prompts"] in questions for row in trained)
    groups: dict[str, set[float]] = {}
    for row in trained:
        groups.setdefault(row["uid"], set()).add(round(row["advantages"][0], 4))
    assert all(len(values) > 1 for values in groups.values())  # no group without a gradient
    assert max(len(values) for values in groups.values()) > 2  # the score also counts words


def test_hard_questions_come_back_through_templates(run: Result) -> None:
    """A hard question's group is dropped while every rollout fails; a template makes its rewards differ."""
    assert any(row["prompts"] in HARD for row in run.actor if not row["uid"].startswith("pad"))
