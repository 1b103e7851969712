"""Check that P2O still learns which questions were hard when `algorithm.filter_groups` drops groups.

Stand-ins: platform, rollout server.
"""

from __future__ import annotations

import pytest

from helpers.verl_run import WORLD, Result, rows, run_verl
from helpers.verl_world import TOKENIZER, tokens
from prompt_coevo.demo.digits import spell
from worlds.pairs.splits import make_splits
from worlds.pairs.world import reward

pytestmark = pytest.mark.long

TASKS = make_splits(WORLD, 0, 64, 8).train
STEPS = 3
GROUP = 8


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    result = run_verl(
        tmp_path_factory.mktemp("dapo"),
        train=rows(TASKS),
        overrides=[
            *("+coevo=p2o", "coevo.p2o.overspend=never", "coevo.p2o.tau=0.01"),
            *("coevo.reflection.model=openai/nobody", "coevo.preflight.reflection=off"),
            f"actor_rollout_ref.rollout.n={GROUP}",
            "algorithm.filter_groups.enable=True",
            "algorithm.filter_groups.metric=reward",
            f"trainer.total_training_steps={STEPS}",
        ],
        env={"OPENAI_API_KEY": "sk-test"},
    )
    assert result.returncode == 0, result.tail
    return result


def test_groups_were_dropped_and_yet_counted_as_hard(run: Result) -> None:
    assert sum(m["training/filter_groups/evicted_samples"] for m in run.metrics.values()) > 0
    assert run.metrics[STEPS]["coevo/hard_samples"] > 0


def test_every_group_that_came_back_was_observed(run: Result) -> None:
    """Every sampled group is observed: trained on, dropped, or left over."""
    assert run.metrics[STEPS]["coevo/train_rollouts"] == len(run.generated())


def test_the_hard_questions_are_those_that_failed_throughout(run: Result) -> None:
    """Computed from the server's log: the latest group of each question, scored here."""
    truths = {tuple(tokens(task.question)): spell(task.answer) for task in TASKS}
    latest: dict[tuple[int, ...], tuple[int, list[float]]] = {}
    for event in run.generated():
        prompt, step = tuple(event["prompt_ids"]), event["global_steps"]
        score = reward(
            TOKENIZER.decode(event["response_ids"], skip_special_tokens=True), truths[prompt]
        )
        if latest.get(prompt, (-1, []))[0] != step:
            latest[prompt] = (step, [])
        latest[prompt][1].append(score)
    failed = [prompt for prompt, (_, scores) in latest.items() if not any(scores)]
    assert len(failed) == run.metrics[STEPS]["coevo/hard_samples"]


def test_only_groups_with_a_gradient_were_trained_on(run: Result) -> None:
    questions = [tokens(task.question) for task in TASKS]
    groups: dict[str, set[float]] = {}
    for row in run.actor:
        if row["uid"].startswith("pad"):
            continue
        assert row["prompts"] in questions
        groups.setdefault(row["uid"], set()).add(round(row["advantages"][0], 4))
    assert all(len(values) > 1 for values in groups.values())
