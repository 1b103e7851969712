"""Check P2O in the unmodified main_ppo: three epochs with a search after each of the first two.

The rollout server, the platform and the teacher's HTTP server are stand-ins (`standins`); trainer,
actor, agent loops, reward loop, TransferQueue and litellm are the real ones.
"""

from __future__ import annotations

from typing import Any

import pytest

from helpers.probed import check_that_the_model_was_asked
from helpers.verl_run import Result, rows, run_verl
from helpers.verl_world import MANY, P2O, by_group, events, reflection, sampled, teach, tokens
from standins.openai_server import openai_server

STEPS_PER_EPOCH = 2


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    with openai_server(teach) as server:
        result = run_verl(
            tmp_path_factory.mktemp("p2o"),
            train=rows(MANY),
            overrides=[
                "+coevo=p2o",
                *P2O,
                *reflection(server.base),
                "coevo.preflight.reflection=refuse",
                *("coevo.reflection.timeout_s=1000", "coevo.reflection.total_timeout_s=1000"),
                "trainer.total_epochs=3",
                "data.train_batch_size=8",
                "actor_rollout_ref.actor.ppo_mini_batch_size=8",
            ],
            env={"OPENAI_API_KEY": "sk-test"},
        )
    assert result.returncode == 0, result.tail
    return result


def test_the_reflection_model_was_asked_before_the_first_step(run: Result) -> None:
    check_that_the_model_was_asked(events(run))


def test_an_epoch_a_search_and_epochs_under_templates(run: Result) -> None:
    assert sorted(run.metrics) == [1, 2, 3, 4, 5, 6]
    searches = [run.metrics[step]["coevo/searches"] for step in range(1, 7)]
    assert searches == [0, 0, 1, 1, 2, 2]
    assert [run.metrics[step]["coevo/templated_fraction"] for step in (1, 2)] == [0, 0]
    assert any(run.metrics[step]["coevo/templated_fraction"] > 0 for step in (3, 4))
    assert [event["stopped"] for event in events(run, "templates_assigned")]
    assert events(run, "training_ended")


def test_but_the_server_sampled_hard_groups_under_two_templates_or_more(run: Result) -> None:
    plain = [tokens(task.question) for task in MANY]
    most = 0
    for (step, _), group in by_group(run.actor).items():
        prompts = {tuple(event["prompt_ids"]) for row in group for event in sampled(run, row)}
        if step <= STEPS_PER_EPOCH:
            assert all(list(prompt) in plain for prompt in prompts)
            continue
        for prompt in prompts:
            assert tuple(group[0]["prompts"][-8:]) == prompt[-8:]  # the same question under each
        most = max(most, len([prompt for prompt in prompts if list(prompt) not in plain]))
    assert most >= 2


def test_the_samplers_log_probs_reach_no_correction(run: Result) -> None:
    """They are under the template, and VeRL would mistake the difference for one between engines.

    Its correction logs by how much the two differ, whether or not it corrects anything.
    """
    stored = [
        abs(here - there)
        for row in run.actor
        for here, there in zip(row["rollout_log_probs"], row["old_log_probs"], strict=True)
    ]
    assert max(stored) > 0.1
    for metrics in run.metrics.values():
        for name in ("kl", "k3_kl", "log_ppl_diff_max", "log_ppl_diff_min", "chi2_token"):
            assert metrics[f"rollout_corr/{name}"] == pytest.approx(0.0, abs=1e-3)


def test_the_metrics_of_the_difference_leave_the_template_out(run: Result) -> None:
    """Where all rows ran under one there are none."""
    name = "training/rollout_probs_diff_max"
    for metrics in run.metrics.values():
        assert (name in metrics) == (metrics["coevo/templated_fraction"] < 1)
        assert metrics.get(name, 0.0) < 1e-3
    assert any(name in metrics for metrics in run.metrics.values())


def test_search_rollouts_run_on_the_weights_of_their_moment(run: Result) -> None:
    extra = [event for event in run.generated() if event["temperature"] != 1.0]
    assert {event["global_steps"] for event in extra} == {2, 4}
    assert {event["temperature"] for event in extra} == {0.7, 0.0}
    spent = sum(event["rollouts"] for event in events(run, "templates_assigned"))
    assert len(extra) == spent == run.metrics[6]["coevo/search_rollouts"]


def test_the_teacher_got_failures_through_the_real_litellm(run: Result) -> None:
    replies: list[dict[str, Any]] = events(run, "reply")
    assert replies
    assert "sk-test" not in run.output
    assert "sk-test" not in (run.folder / "checkpoints/coevo/events.jsonl").read_text()
