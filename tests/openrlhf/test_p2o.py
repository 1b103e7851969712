"""P2O in the unmodified train_ppo_ray, by the wrapper's flags: a search after each episode but the last.

Stand-ins: vLLM, flash-attn, the device, and the reflection model's HTTP server. Trainer, actor,
DeepSpeed, Ray and litellm are the real ones.
"""

from __future__ import annotations

import pytest

from helpers.openrlhf_run import Result, rows, run_openrlhf
from helpers.openrlhf_world import (
    GROUP,
    MANY,
    P2O,
    TOKENIZER,
    by_group,
    events,
    prompt_of,
    reflection,
    sampled_under,
    teach,
    tokens,
)
from standins.openai_server import openai_server

STEPS_PER_EPISODE = 2


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    with openai_server(teach) as server:
        result = run_openrlhf(
            tmp_path_factory.mktemp("p2o"),
            module="prompt_coevo.adapters.openrlhf",
            train=rows(MANY),
            overrides=[
                *("--coevo.method", "p2o", *P2O, *reflection(server.base)),
                *("--train.num_episodes=3", "--rollout.batch_size=8", "--train.batch_size=32"),
                *("--rollout.micro_batch_size=32", "--train.micro_batch_size=32"),
                "--algo.advantage.is_correction_level=token",
            ],
            env={"OPENAI_API_KEY": "sk-test"},
        )
    assert result.returncode == 0, result.tail
    return result


def test_an_episode_a_search_and_episodes_under_templates(run: Result) -> None:
    assert sorted(run.metrics) == [1, 2, 3, 4, 5, 6]
    searches = [run.metrics[step]["train/coevo/searches"] for step in range(1, 7)]
    assert searches == [0, 0, 1, 1, 2, 2]
    assert any(run.metrics[step]["train/coevo/templated_fraction"] > 0 for step in (3, 4))
    assert len(events(run, "templates_assigned")) == 2
    assert events(run, "training_ended")


def test_the_actor_trains_on_the_questions_alone_in_adjacent_groups(run: Result) -> None:
    wanted = [tokens(task.question) for task in MANY]
    for rows_of_group in by_group(run).values():
        assert len(rows_of_group) == GROUP
        assert len({tuple(prompt_of(row)) for row in rows_of_group}) == 1
        assert prompt_of(rows_of_group[0]) in wanted
        for row in rows_of_group:
            assert row["prompts"] == TOKENIZER.decode(prompt_of(row))


def test_but_the_engine_sampled_hard_groups_under_two_templates_or_more(run: Result) -> None:
    plain = [tokens(task.question) for task in MANY]
    most = 0
    for (step, _), members in by_group(run).items():
        prompts = {prompt for row in members for prompt in sampled_under(run, row)}
        if step <= STEPS_PER_EPISODE:
            assert all(list(prompt) in plain for prompt in prompts)
            continue
        most = max(most, len([prompt for prompt in prompts if list(prompt) not in plain]))
    assert most >= 2


def test_log_probs_are_on_the_question(run: Result) -> None:
    """Old log-probs equal those of the loss, and the correction does not see the template."""
    for row in run.actor:
        for name in ("action_log_probs", "rollout_log_probs"):
            values = [v for v, kept in zip(row[name], row["action_mask"], strict=True) if kept]
            now = [v for v, kept in zip(row["log_probs"], row["action_mask"], strict=True) if kept]
            assert values == pytest.approx(now, abs=1e-3)


def test_search_rollouts_run_on_the_weights_of_their_moment(run: Result) -> None:
    extra = [event for event in run.generated() if event["temperature"] != 1.0]
    assert {event["version"] for event in extra} == {2, 4}
    assert {event["temperature"] for event in extra} == {0.7, 0.0}
    assert len(extra) == sum(event["rollouts"] for event in events(run, "templates_assigned"))


def test_every_planned_rollout_came_back(run: Result) -> None:
    assert run.metrics[6]["train/coevo/train_rollouts"] == 6 * 8 * GROUP
    assert "sk-test" not in run.output
