"""Check a user's two-turn agent with dynamic filtering under P2O, and one whose reset() edits the prompt.

Stand-ins: vLLM, flash-attn, the device, and the reflection model's HTTP server. The agent runs in
OpenRLHF's own MultiTurnAgentExecutor.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from helpers import openrlhf_agent
from helpers.openrlhf_run import Result, rows, run_openrlhf
from helpers.openrlhf_world import (
    GROUP,
    MANY,
    P2O,
    TOKENIZER,
    by_group,
    events,
    reflection,
    teach,
    tokens,
)
from standins.openai_server import openai_server

FEEDBACK = TOKENIZER("<user> note please <end> <assistant>")["input_ids"]
QUESTIONS = [tokens(task.question) for task in MANY]
Key = tuple[int, ...]


def start(folder: Path, *more: str, agent: str = "") -> Result:
    with openai_server(teach) as server:
        return run_openrlhf(
            folder,
            train=rows(MANY),
            module="prompt_coevo.adapters.openrlhf",
            agent=Path(openrlhf_agent.__file__),
            overrides=[
                *("--coevo.method", "p2o", *P2O, *reflection(server.base)),
                *("--train.num_episodes=3", "--algo.advantage.is_correction_level=token", *more),
            ],
            env={"OPENAI_API_KEY": "sk-test", "COEVO_TEST_AGENT": agent},
        )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    filtering = ("--algo.dynamic_filtering_enable", "--algo.dynamic_filtering_range", "0", "1")
    result = start(tmp_path_factory.mktemp("agent"), *filtering)
    assert result.returncode == 0, result.tail
    return result


def turns(row: dict[str, Any]) -> list[list[int]]:
    """Split a row into alternating parts: not written by the policy, written by it."""
    parts: list[list[int]] = [[]]
    for token, action in zip(row["sequences"], [0, *row["action_mask"]], strict=True):
        if action == len(parts) % 2:
            parts.append([])
        parts[-1].append(token)
    return parts


def second_turns(run: Result) -> dict[tuple[int, Key, Key], set[Key]]:
    """Return policy version, first and second response for the prompts that both were sampled under."""
    first = {
        (e["version"], tuple(e["prompt_ids"]), tuple(e["response_ids"])) for e in episodes(run)
    }
    found: defaultdict[tuple[int, Key, Key], set[Key]] = defaultdict(set)
    for version, prompt, response in first:
        for event in episodes(run):
            if event["version"] == version and tuple(event["prompt_ids"]) == (
                *prompt,
                *response,
                *FEEDBACK,
            ):
                found[version, response, tuple(event["response_ids"])].add(prompt)
    return found


def episodes(run: Result) -> list[dict[str, Any]]:
    return [event for event in run.generated() if event["temperature"] == 1.0]


def test_only_sampled_tokens_are_actions(run: Result) -> None:
    sampled = second_turns(run)
    assert run.actor
    for row in run.actor:
        question, first, feedback, second = turns(row)
        assert question in QUESTIONS
        assert feedback == FEEDBACK
        assert sampled[row["step"] - 1, tuple(first), tuple(second)]


def test_all_turns_moved_along_with_the_prompt(run: Result) -> None:
    """The same tokens were sampled under longer prompts, in some groups under several."""
    sampled = second_turns(run)
    most = 0
    for (step, _), group in by_group(run).items():
        prompts = set()
        for row in group:
            _, first, _, second = turns(row)
            prompts |= sampled[step - 1, tuple(first), tuple(second)]
        most = max(most, len([prompt for prompt in prompts if list(prompt) not in QUESTIONS]))
    assert most >= 2


def test_groups_are_adjacent_and_have_their_own_rewards(run: Result) -> None:
    for group in by_group(run).values():
        assert len(group) == GROUP
        assert len({tuple(turns(row)[0]) for row in group}) == 1
        assert len({row["labels"] for row in group}) == 1
        for row in group:
            words = [token for token in turns(row)[3] if token != TOKENIZER.eos_token_id]
            assert row["info"]["score"] == (len(words) % 2 == 0)
            assert row["info"]["turns"] == 2
        assert 0 < sum(row["info"]["score"] for row in group) < GROUP


def test_what_the_filter_took_away_was_observed_too(run: Result) -> None:
    last = run.metrics[max(run.metrics)]
    assert last["train/coevo/train_rollouts"] == 3 * len(MANY) * GROUP > len(run.actor)
    assert last["train/coevo/searches"] == 2
    assert events(run, "training_ended")


def test_log_probs_are_on_the_question(run: Result) -> None:
    """The sampler's log-probs at a turn's beginning differ: `min_tokens` forbids the end token there."""
    for row in run.actor:
        begins = [b and not a for a, b in pairwise([0, *row["action_mask"]])]
        for old, sampler, new, kept, first in zip(
            *(row[name] for name in ("action_log_probs", "rollout_log_probs", "log_probs")),
            *(row["action_mask"], begins),
            strict=True,
        ):
            if kept:
                assert old == pytest.approx(new, abs=1e-4)
                assert sampler == pytest.approx(new, abs=1e-4) or first


def test_an_agent_that_edits_the_prompt_is_refused(tmp_path: Path) -> None:
    result = start(tmp_path, agent="edits")
    assert result.returncode == 1
    assert "an agent must hand on the prompt unchanged" in result.output
