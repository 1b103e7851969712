"""Check what the journal records about training's own rollouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prompt_coevo import redact
from prompt_coevo.engine.journal import Journal
from prompt_coevo.engine.step_rewards import StepRewards
from prompt_coevo.types import EMPTY_TEMPLATE, Assignment, Candidate, Group, Rollout, RolloutStatus

HINT = Candidate("think", "template")


def rollout(
    question: str, template: Candidate | None, reward: float, status: RolloutStatus = "ok"
) -> Rollout:
    return Rollout(Assignment(question, template=template), "", reward, status)


def test_rewards_are_apart_by_template_and_by_question_where_there_were_templates() -> None:
    rewards = StepRewards()
    assert rewards.empty
    hard = [rollout("a", HINT, 1.0), rollout("a", HINT, 0.5), rollout("a", EMPTY_TEMPLATE, 0.0)]
    rewards.add([Group("a", tuple(hard)), Group("b", (rollout("b", None, 1.0),))])
    rewards.add([Group("a", (rollout("a", HINT, 9.0, "aborted"), rollout("a", HINT, 0.0)))])
    assert not rewards.empty
    assert rewards.totals == {
        "unfit": 1,
        "templated": {"rollouts": 3, "reward": 0.5},
        "untemplated": {"rollouts": 2, "reward": 0.5},
    }
    assert rewards.uses == [("a", HINT.id, 3, 0.5), ("a", None, 1, 0.0)]


def test_a_step_of_unfit_rollouts_alone_has_no_mean() -> None:
    rewards = StepRewards()
    rewards.add([Group("a", (rollout("a", HINT, float("nan"), "no_reward"),))])
    assert rewards.totals["templated"] == {"rollouts": 0, "reward": None}
    assert rewards.totals["unfit"] == 1


def test_a_checkpoint_between_rollouts_and_their_update_keeps_them(
    make_engine: Any, keyed_policy: Any, tmp_path: Path
) -> None:
    """As with OpenRLHF, which saves before the update is counted."""
    told = []
    for folder, resumes in ((tmp_path / "whole", False), (tmp_path / "resumed", True)):
        engine, policy = make_engine(lambda prompt: "", folder, algorithms=()), keyed_policy(4)
        engine.begin(policy)
        engine.observe([Rollout(one, "", 0.5) for one in engine.plan(sorted(policy.questions), 2)])
        if resumes:
            state = engine.state_dict()
            engine = make_engine(lambda prompt: "", folder, algorithms=())
            engine.load_state_dict(state)
            engine.begin(policy)
        engine.step_end(policy)
        engine.end(policy)
        events = Journal(folder / "coevo").read()
        told.append([event["untemplated"] for event in events if event["event"] == "rewards"])
    assert told[0] == told[1] == [{"rollouts": 8, "reward": 0.5}]


def test_without_the_journal_its_rewards_are_passed_over(
    make_engine: Any, keyed_policy: Any
) -> None:
    engine, policy = make_engine(lambda prompt: "", algorithms=()), keyed_policy(4)
    engine.begin(policy)
    engine.observe([Rollout(one, "", 0.5) for one in engine.plan(sorted(policy.questions), 2)])
    make_engine(lambda prompt: "", algorithms=(), sinks=()).load_state_dict(engine.state_dict())


def test_keys_are_looked_for_once_a_write_and_those_of_that_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    names_a_key = redact.names_a_key
    monkeypatch.setattr(redact, "names_a_key", lambda name: asked.append(name) or names_a_key(name))
    journal = Journal(tmp_path)
    journal.write([{"event": "a", "texts": [f"text {n}" for n in range(100)]}])
    assert len(asked) == len(set(asked))
    monkeypatch.setenv("SOME_API_KEY", "as-of-now-1234")
    journal.write([{"event": "b", "text": "as-of-now-1234"}])
    assert [event.get("text") for event in journal.read()] == [None, "[api key]"]
