"""Check first mistakes of a user's own trainer, and the sentence that each one gets."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from prompt_coevo import Coevolution, Question, Rollout, Settings
from prompt_coevo.errors import HostError, SettingsError

REFLECTION = {"function": lambda prompt: "<template>Think.</template>"}


class Policy:
    """Two questions that no rollout answers."""

    def question(self, question_id: str) -> Question:
        return Question(question_id, f"what is {question_id}?", "42")

    def question_ids(self) -> list[str]:
        return ["one", "two"]

    def rollout(self, requests: Any) -> list[Rollout]:
        return [Rollout(request.assignment, "no", 0.0) for request in requests]


class Rows(Policy):
    def question(self, question_id: str) -> Any:
        return {"prompt": question_id}


class Broken(Policy):
    """Return another answer than requested."""

    def __init__(self, rollouts: Any) -> None:
        self._rollouts = rollouts

    def rollout(self, requests: Any) -> Any:
        return self._rollouts(requests)


def summary(
    folder: Path | str, *calls: str, rounds: int = 4, reward: float = 0.0, **stream: Any
) -> dict[str, Any]:
    """Return the summary of a run that makes only these calls."""
    engine, policy = (
        Coevolution.from_settings(
            Settings(reflection=REFLECTION, stream=stream), output_dir=folder
        ),
        Policy(),
    )
    engine.begin(policy)
    for _ in range(rounds):
        plan = engine.plan(policy.question_ids(), 2)
        if "observe" in calls:
            engine.observe(
                [Rollout.scored(one, "no", reward, engine.policy_version) for one in plan]
            )
        if "step_end" in calls:
            engine.step_end(policy)
    engine.end(policy)
    lines = (Path(folder) / "coevo" / "events.jsonl").read_text("utf-8").splitlines()
    (event,) = [one for line in lines if (one := json.loads(line))["event"] == "summary"]
    return event


def test_settings_as_a_mapping() -> None:
    with pytest.raises(SettingsError, match=r"are a dict; make them by Settings\(\*\*values\)"):
        Coevolution.from_settings({"reflection": REFLECTION})  # type: ignore[arg-type]


def test_questions_as_rows() -> None:
    engine = Coevolution.from_settings(Settings(reflection=REFLECTION))
    with pytest.raises(
        HostError, match=r"policy.question\('one'\) returned a dict; return a prompt"
    ):
        engine.begin(Rows())


def test_a_folder_may_be_a_text(tmp_path: Path) -> None:
    assert summary(str(tmp_path), "observe", "step_end")


@pytest.mark.parametrize(
    ("calls", "sentence"),
    [
        (("step_end",), "of 8 planned groups none came back: call observe with all rollouts"),
        (("observe",), "no step ever ended: call step_end after every update"),
    ],
)
def test_a_call_that_was_left_out_is_named_in_the_end(
    calls: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    event = summary(tmp_path, *calls)
    assert event["for_nothing"]
    assert event["text"].startswith(sentence)


def test_nothing_is_missed_where_all_is_called(tmp_path: Path) -> None:
    text = summary(tmp_path, "observe", "step_end")["text"]
    assert text.startswith("stream: ")


@pytest.mark.parametrize(("steps", "told"), [(1, False), (2, True)])
def test_a_resumed_run_that_was_over_has_nothing_to_observe(
    steps: int, told: bool, tmp_path: Path
) -> None:
    """A trainer that samples ahead still plans, and ends the step that its checkpoint had open."""
    settings, policy = Settings(reflection=REFLECTION), Policy()
    begun = Coevolution.from_settings(settings)
    begun.begin(policy)
    out = begun.plan(policy.question_ids(), 2)
    resumed = Coevolution.from_settings(settings, output_dir=tmp_path)
    resumed.load_state_dict(begun.state_dict())
    resumed.begin(policy)
    resumed.still_out(out)
    resumed.plan(policy.question_ids(), 2)
    for step in range(1, steps + 1):
        resumed.step_end(policy, last=step == steps)
    resumed.end(policy)
    text = (tmp_path / "coevo" / "events.jsonl").read_text("utf-8")
    assert ("of 4 planned groups none came back" in text) == told


@pytest.mark.parametrize(("rounds", "once"), [(1, True), (4, False)])
def test_a_question_that_came_again_is_not_said_to_have_come_once(
    rounds: int, once: bool, tmp_path: Path
) -> None:
    text = summary(tmp_path, "observe", rounds=rounds, first_sight=False)["text"]
    assert ("met no question twice" in text) == once


def test_rollouts_that_nobody_can_judge_are_the_cause_that_is_named(tmp_path: Path) -> None:
    text = summary(tmp_path, "observe", "step_end", reward=math.nan)["text"]
    assert "because no rollout could be judged" in text


@pytest.mark.parametrize(
    ("rollouts", "told"),
    [
        (lambda requests: None, "'NoneType' object is not iterable"),
        (lambda requests: [Rollout(requests[0].assignment, "no", 0.0)], "gave 1 rollouts"),
    ],
)
def test_a_dry_run_sees_rollouts_that_are_none(
    rollouts: Any, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = Coevolution.from_settings(Settings(reflection=REFLECTION))
    assert engine.dry_run(Broken(rollouts)) == 1
    assert told in " ".join(capsys.readouterr().out.split())


def test_a_dry_run_that_is_broken_off_has_no_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(requests: Any) -> None:
        raise KeyboardInterrupt

    engine = Coevolution.from_settings(Settings(reflection=REFLECTION), output_dir=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        engine.dry_run(Broken(stop))
    assert capsys.readouterr().out == ""
    events = (tmp_path / "coevo" / "events.jsonl").read_text("utf-8")
    assert '"preflight"' not in events
