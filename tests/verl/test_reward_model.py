"""Rewards by a reward model, which VeRL serves on the rollout's devices or on devices of its own.

Stand-ins: platform, rollout server, the reward model's server, teacher. The reward model's manager, its
router and the requests are VeRL's.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from helpers.verl_run import TASKS, Result, run_verl
from helpers.verl_world import P2O, TOKENIZER, by_group, reflection, sampled, teach, tokens
from prompt_coevo.demo.model import base_policy_path
from prompt_coevo.demo.world import reward, spell
from standins.openai_server import openai_server

pytestmark = pytest.mark.long

STEPS = 4
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
)


def run(folder: Path, *overrides: str, gpus: int = 1) -> Result:
    """Two epochs with a search between them, and validations."""
    folder.mkdir(exist_ok=True)
    answers = folder / "answers.json"
    answers.write_text(json.dumps({task.question: spell(task.answer) for task in TASKS}))
    with openai_server(teach) as server:
        result = run_verl(
            folder,
            overrides=[
                *("+coevo=p2o", *P2O, *reflection(server.base), "coevo.p2o.dev_size=4"),
                *("trainer.total_epochs=2", "trainer.test_freq=2", *REWARD_MODEL, *overrides),
            ],
            env={"OPENAI_API_KEY": "sk-test", "COEVO_TEST_ANSWERS": str(answers)},
            gpus=gpus,
        )
    assert result.returncode == 0, result.tail
    assert sorted(result.metrics) == list(range(1, STEPS + 1))
    assert result.metrics[STEPS]["coevo/searches"] == 1
    return result


def test_on_the_rollouts_devices(tmp_path: Path) -> None:
    result = run(tmp_path)
    check_rewards(result)
    check_one_at_a_time(result)


def test_on_devices_of_its_own(tmp_path: Path) -> None:
    result = run(tmp_path, *OWN_DEVICES, gpus=2)
    check_rewards(result)


def check_rewards(result: Result) -> None:
    """They are the reward model's, which reads the question and never a template."""
    judged = [event for event in result.server if event["event"] == "judged"]
    last = result.metrics[STEPS]
    validations = 2 * 2  # of two questions
    assert last["coevo/search_rollouts"] > 0
    assert len(judged) == last["coevo/train_rollouts"] + last["coevo/search_rollouts"] + validations
    assert {event["text"].split(" <end>")[0] for event in judged} == {
        f"<user> {task.question}" for task in TASKS
    }
    answers = {tuple(tokens(task.question)): spell(task.answer) for task in TASKS}
    under_template, right = 0, 0.0
    scores: dict[int, list[float]] = {step: [] for step in result.metrics}
    for (step, _), group in by_group(result.actor).items():
        for row in group:
            response = TOKENIZER.decode(row["responses"], skip_special_tokens=True)
            score = reward(response, answers[tuple(row["prompts"])])
            scores[step].append(score)
            if is_templated(result, row):
                under_template += 1
                right += score
    for step, metrics in result.metrics.items():
        assert metrics["critic/score/mean"] == pytest.approx(mean(scores[step]))
    assert under_template > 0
    assert right > 0
    assert last["coevo/reward_templated"] > 0


def is_templated(result: Result, row: dict[str, Any]) -> bool:
    under = [event["prompt_ids"] for event in sampled(result, row)]
    return bool(under) and row["prompts"] not in under


def check_one_at_a_time(result: Result) -> None:
    """The reward model is awake only while the rollout servers sleep, in searches too."""
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
    assert turns > STEPS + 2
