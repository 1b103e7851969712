"""Check a reward model that VeRL serves on the rollout's devices or on separate ones.

Stand-ins: platform, rollout server, the reward model's server, teacher. The reward model's manager, its
router and the requests are VeRL's.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from helpers import verl_reward
from helpers.verl_run import TASKS, Result, rows, run_verl
from helpers.verl_world import P2O, TOKENIZER, by_group, reflection, sampled, teach, tokens
from prompt_coevo.demo.digits import spell
from standins.openai_server import openai_server
from worlds.pairs.world import base_policy_path, reward

pytestmark = pytest.mark.long

OF_REWARD = "reward.reward_model"
REWARD_MODEL = (
    "reward.custom_reward_function.path=null",
    f"{OF_REWARD}.enable=True",
    f"{OF_REWARD}.model_path={base_policy_path()}",
    f"{OF_REWARD}.rollout.name=sglang",
    f"{OF_REWARD}.rollout.tensor_model_parallel_size=1",
)
OWN_DEVICES = (
    f"{OF_REWARD}.enable_resource_pool=True",
    f"{OF_REWARD}.n_gpus_per_node=1",
    f"{OF_REWARD}.nnodes=1",
    f"{OF_REWARD}.rollout.free_cache_engine=False",
    # VeRL 0.9.1 calls such a reward model itself, and then misses a key in the reply.
    f"reward.custom_reward_function.path={verl_reward.__file__}",
    "reward.custom_reward_function.name=by_reward_model",
)


SEARCH = (*P2O, "coevo.p2o.dev_size=4", "trainer.total_epochs=2")
STEPS_OF_SEARCH = 4


def run(folder: Path, *overrides: str, steps: int, gpus: int = 1) -> Result:
    """Run with a validation of two questions after every second step."""
    folder.mkdir(exist_ok=True)
    answers = folder / "answers.json"
    answers.write_text(json.dumps({task.question: spell(task.answer) for task in TASKS}))
    with openai_server(teach) as server:
        result = run_verl(
            folder,
            train=[
                {**row, "extra_info": {"question": task.question}}
                for task, row in zip(TASKS, rows(TASKS), strict=True)
            ],
            overrides=[
                *("+coevo=p2o", *reflection(server.base), "trainer.test_freq=2"),
                *(*REWARD_MODEL, *overrides),
            ],
            env={"OPENAI_API_KEY": "sk-test", "COEVO_TEST_ANSWERS": str(answers)},
            gpus=gpus,
        )
    assert result.returncode == 0, result.tail
    assert sorted(result.metrics) == list(range(1, steps + 1))
    check_rewards(result)
    return result


def test_on_the_rollouts_devices(tmp_path: Path) -> None:
    result = run(tmp_path, *SEARCH, steps=STEPS_OF_SEARCH)
    check_search(result)
    check_one_at_a_time(result, STEPS_OF_SEARCH + 2)


def test_on_devices_of_its_own(tmp_path: Path) -> None:
    check_search(run(tmp_path, *SEARCH, *OWN_DEVICES, steps=STEPS_OF_SEARCH, gpus=2))


def check_rewards(result: Result) -> None:
    """Check that rewards are the reward model's, which reads the question and never a template."""
    judged = [event for event in result.server if event["event"] == "judged"]
    steps = max(result.metrics)
    last, validations = result.metrics[steps], 2 * steps // 2
    assert last["coevo/search_rollouts"] > 0
    assert len(judged) == last["coevo/train_rollouts"] + last["coevo/search_rollouts"] + validations
    assert {event["text"].split(" <end>")[0] for event in judged} == {
        f"<user> {task.question}" for task in TASKS
    }
    for step, metrics in result.metrics.items():
        groups = by_group(result.actor).items()
        scores = [score(row) for (at, _), group in groups if at == step for row in group]
        assert metrics["critic/score/mean"] == pytest.approx(mean(scores))


def score(row: dict[str, Any]) -> float:
    """Return the reward model's score of a row, which is trained on a bare question."""
    (answer,) = (spell(one.answer) for one in TASKS if tokens(one.question) == row["prompts"])
    return reward(TOKENIZER.decode(row["responses"], skip_special_tokens=True), answer)


def check_search(result: Result) -> None:
    """Check that the search found templates by the rewards, and that they helped."""
    last = result.metrics[STEPS_OF_SEARCH]
    assert last["coevo/searches"] == 1
    assert last["coevo/reward_templated"] > 0
    under = [row for row in result.actor if is_templated(result, row)]
    assert sum(score(row) for row in under) > 0


def is_templated(result: Result, row: dict[str, Any]) -> bool:
    under = [event["prompt_ids"] for event in sampled(result, row)]
    return bool(under) and row["prompts"] not in under


def check_one_at_a_time(result: Result, more_than: int) -> None:
    """Check that the reward model is awake only while the rollout servers sleep, also in searches."""
    rollout_awake = judge_awake = False
    turns = 0
    for event in result.server:
        match event["event"]:
            case "judge_wakes":
                judge_awake, turns = True, turns + 1
            case "judge_sleeps":
                judge_awake = False
            case "wake" | "weights" | "generate":
                rollout_awake = True
            case "sleep":
                rollout_awake = False
        assert not (rollout_awake and judge_awake)
    assert turns > more_than
