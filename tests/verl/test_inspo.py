"""INSPO in the unmodified main_ppo: prunes, an evolution, and validation under the best instruction.

Stand-ins: platform, rollout server, and the reflection model's HTTP server.
"""

from __future__ import annotations

from typing import Any

import pytest

from helpers.verl_run import Result, run_verl
from helpers.verl_world import (
    FIRST,
    INSPO,
    QUESTIONS,
    TOKENIZER,
    by_group,
    events,
    reflection,
    sampled,
    teach,
    tokens,
)
from standins.openai_server import openai_server

pytestmark = pytest.mark.long

STEPS = 6


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    with openai_server(teach) as server:
        result = run_verl(
            tmp_path_factory.mktemp("inspo"),
            overrides=[
                "+coevo=inspo",
                *INSPO,
                *reflection(server.base),
                "trainer.total_epochs=3",
                f"trainer.test_freq={STEPS}",
                "reward.custom_reward_function.name=distinct_words",
            ],
            env={"OPENAI_API_KEY": "sk-test"},
        )
    assert result.returncode == 0, result.tail
    return result


def instructions(run: Result) -> dict[str, str]:
    """All that ever joined the population: id to text."""
    joined = [one for event in events(run, "population_changed") for one in event["added"]]
    return {one["id"]: one["text"] for one in joined}


def system_of(prompt_ids: list[int]) -> str:
    text = TOKENIZER.decode(prompt_ids)
    return str(text.split("<system>")[1].split("<end>")[0].strip()) if "<system>" in text else ""


def test_there_was_a_prune_and_an_evolution(run: Result) -> None:
    changes = events(run, "population_changed")
    assert any(event["removed"] for event in changes)
    assert run.metrics[STEPS]["coevo/evolutions"] >= 1
    assert events(run, "candidate_verified")
    assert FIRST in instructions(run).values()


def test_one_instruction_per_group_and_it_is_trained_on(run: Result) -> None:
    texts = set(instructions(run).values())
    groups = by_group(run.actor)
    assert len(groups) == STEPS * 4
    for rows in groups.values():
        prompts = {tuple(row["prompts"]) for row in rows}
        assert len(prompts) == 1
        prompt = list(prompts.pop())
        system = system_of(prompt)
        assert system in texts
        assert prompt in [tokens(question, system) for question in QUESTIONS]
        for row in rows:
            assert any(event["prompt_ids"] == prompt for event in sampled(run, row))


def test_more_than_one_instruction_was_tried(run: Result) -> None:
    assert len({system_of(row["prompts"]) for row in run.actor}) >= 2


def test_rewards_went_to_the_instruction_that_earned_them(run: Result) -> None:
    """The weights in the state are mean rewards of the last steps in which an instruction ran."""
    import json

    state = json.loads((run.folder / "checkpoints/coevo/state.json").read_text())
    members: list[dict[str, Any]] = state["plugins"]["inspo"]["population"]
    seen = {system_of(row["prompts"]) for row in run.actor}
    for member in members:
        if member["window"]:
            assert member["instruction"]["text"] in seen
        means = [
            _mean_reward(rows) for rows in _by_step(run, member["instruction"]["text"]).values()
        ]
        for entry in member["window"]:
            assert any(entry == pytest.approx(mean, abs=1e-6) for mean in means)


def _by_step(run: Result, text: str) -> dict[int, list[dict[str, Any]]]:
    steps: dict[int, list[dict[str, Any]]] = {}
    for row in run.actor:
        if system_of(row["prompts"]) == text and not row["uid"].startswith("pad"):
            steps.setdefault(row["global_steps"], []).append(row)
    return steps


def _mean_reward(rows: list[dict[str, Any]]) -> float:
    texts = [TOKENIZER.decode(row["responses"], skip_special_tokens=True) for row in rows]
    return sum(len(set(text.split())) / 20 for text in texts) / len(texts)


def test_verification_ran_on_the_current_weights(run: Result) -> None:
    """Its rollouts are the ones that the actor did not train on; step 3 and its weights at the latest."""
    trained = {(row["global_steps"] - 1, tuple(row["responses"])) for row in run.actor}
    extra = [
        event
        for event in run.generated()
        if (event["global_steps"], tuple(event["response_ids"])) not in trained
        and event["global_steps"] < STEPS
    ]
    assert {event["global_steps"] for event in extra} <= {3}
    assert run.metrics[STEPS]["coevo/verify_rollouts"] > 0


def test_validation_ran_under_the_best_instruction(run: Result) -> None:
    best = (run.folder / "checkpoints/coevo/best_instruction.txt").read_text().strip()
    validated = [
        event
        for event in run.generated()
        if event["global_steps"] == STEPS and event["temperature"] == 0.0
    ]
    assert len(validated) == 2
    assert {system_of(event["prompt_ids"]) for event in validated} == {best}
