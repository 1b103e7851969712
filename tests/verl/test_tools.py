"""Check VeRL's own tool agent, selected by a column, in our agent loop: masks and turns stay, and the
prompt is the question's.

Stand-ins: platform, rollout server, teacher. The policy is too small to call tools, so a script speaks for
it (`helpers.verl_tool`); the tokens get log-probs by the real weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.byte_model import byte_model, byte_tokenizer
from helpers.verl_run import Result, run_verl
from helpers.verl_tool import HINT, OBSERVATION
from helpers.verl_world import P2O, by_group, events, reflection
from standins.openai_server import openai_server

TOKENIZER = byte_tokenizer()
TOOL_FILE = Path(__file__).parents[1] / "helpers" / "verl_tool.py"
QUESTIONS = [f"Is {number} even?" for number in range(8)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("tools")
    TOKENIZER.save_pretrained(folder / "model")
    byte_model(TOKENIZER).save_pretrained(folder / "model")
    data = [
        {
            "prompt": [{"role": "user", "content": question}],
            "ground_truth": "yes",
            "agent_name": "tool_agent",
        }
        for question in QUESTIONS
    ]
    with openai_server(f"<template>{HINT}</template>") as server:
        result = run_verl(
            folder,
            train=data,
            model=folder / "model",
            overrides=[
                "+coevo=p2o",
                *P2O,
                *reflection(server.base),
                "coevo.p2o.dev_size=4",
                "trainer.total_epochs=2",
                "data.max_prompt_length=1200",
                "data.max_response_length=300",
                "reward.custom_reward_function.name=says_yes",
                "actor_rollout_ref.rollout.multi_turn.enable=True",
                "actor_rollout_ref.rollout.multi_turn.format=hermes",
                f"actor_rollout_ref.rollout.multi_turn.function_tool_path={TOOL_FILE}",
            ],
            env={
                "OPENAI_API_KEY": "sk-test",
                "COEVO_TEST_SCRIPT": "helpers.verl_tool:take_turns",
            },
        )
    assert result.returncode == 0, result.tail
    return result


def text(ids: list[int]) -> str:
    return str(TOKENIZER.decode(ids))


def rows(run: Result) -> list[dict[str, Any]]:
    return [row for group in by_group(run.actor).values() for row in group]


def test_the_hint_was_found_and_used(run: Result) -> None:
    assert any(event["cover"] for event in events(run, "templates_assigned"))
    assert any(HINT in text(event["prompt_ids"]) for event in run.generated())
    assert run.metrics[4]["coevo/reward_templated"] == 1.0


def test_prompts_are_the_questions_with_the_tools_and_without_the_hint(run: Result) -> None:
    prompts = {text(row["prompts"]) for row in rows(run)}
    assert len(prompts) == len(QUESTIONS)
    for prompt in prompts:
        assert HINT not in prompt
        assert '"name": "search"' in prompt
        assert sum(question in prompt for question in QUESTIONS) == 1


def test_no_loss_on_what_the_tool_said(run: Result) -> None:
    for row in rows(run):
        masked = [
            t for t, keep in zip(row["responses"], row["response_mask"], strict=True) if not keep
        ]
        kept = [t for t, keep in zip(row["responses"], row["response_mask"], strict=True) if keep]
        assert OBSERVATION in text(masked)
        assert OBSERVATION not in text(kept)
        assert text(kept).count("<tool_call>") == 1


def test_the_sampled_ids_are_the_trained_ones(run: Result) -> None:
    said = {tuple(event["response_ids"]) for event in run.generated()}
    for row in rows(run):
        turns: list[list[int]] = [[]]
        for token, keep in zip(row["responses"], row["response_mask"], strict=True):
            if keep:
                turns[-1].append(token)
            elif turns[-1]:
                turns.append([])
        assert len(turns) == 2
        assert all(tuple(turn) in said for turn in turns)


def test_two_turns_each(run: Result) -> None:
    assert all(m["training/num_turns/mean"] == 4 for m in run.metrics.values())
