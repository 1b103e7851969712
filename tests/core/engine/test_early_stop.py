"""Check `early_signs = "stop"`: a run that cannot learn ends with one sentence and complete files."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.families import GROUP, Families, Teacher, epoch, knowing
from prompt_coevo import Coevolution, Settings
from prompt_coevo.engine.reply_signs import REPLIES, ReplySigns
from prompt_coevo.errors import EarlySignError
from prompt_coevo.proposals import Proposal, ProposalRequest, Reply
from prompt_coevo.settings.method import Workload
from prompt_coevo.types import EMPTY_TEMPLATE, Candidate, Rollout


def built(folder: Path, reply: Any = "", **settings: Any) -> tuple[Coevolution, Teacher]:
    teacher = Teacher(reply if callable(reply) else lambda prompt: reply)
    made = Settings(reflection={"function": teacher}, **settings)
    return Coevolution.from_settings(made, output_dir=folder), teacher


def trained(engine: Coevolution, policy: Families, epochs: int = 6) -> None:
    engine.begin(policy, Workload(policy.count, GROUP, epochs, epochs * policy.count // 8))
    for number in range(epochs):
        list(epoch(engine, policy, number))


def events(folder: Path, event: str) -> list[dict[str, Any]]:
    lines = (folder / "coevo" / "events.jsonl").read_text("utf-8").splitlines()
    return [one for one in map(json.loads, lines) if one["event"] == event]


class Spread(Families):
    """Half of the rollouts of every other question succeed, so rewards raise no early sign."""

    def _one(self, one: Any, version: Any) -> Rollout:
        right = int(one.question_id[1:]) % 2 and one.member % 2
        return Rollout(one, "said", float(right), policy_version=version)


REPLIES_WITHOUT_TEXT = [
    (Reply("", "stop"), "8 empty"),
    (Reply(None, "tool_calls"), "8 tool calls alone"),
    (Reply("  ", "content_filter"), "8 refused"),
    (Reply("", "refusal"), "8 refused"),
    (Reply("", "reasoning"), "8 reasoning alone"),
    (Reply("<think>what could help</think>\n", "stop"), "8 reasoning alone"),
    (Reply("<think>what could", "stop"), "8 reasoning alone"),
    (Reply("", "length"), "8 cut off at reflection.max_tokens before any text"),
    (Reply("I'm sorry, but I can't help with that.", "stop"), "8 text without a candidate"),
    (Reply("<template> </template>", "stop"), "8 an empty candidate"),
    (Reply("<template>Think.</template>", "length"), "8 cut off at reflection.max_tokens"),
]


class Model:
    def __init__(self, reply: Reply) -> None:
        self.reply, self.calls = reply, 0

    def complete(self, prompts: list[str]) -> list[Reply]:
        self.calls += len(prompts)
        return [self.reply for _ in prompts]


@pytest.mark.parametrize(("reply", "said"), REPLIES_WITHOUT_TEXT)
@pytest.mark.parametrize("what", ["warn", "stop"])
def test_replies_without_text_are_a_sign(
    reply: Reply,
    said: str,
    what: str,
    tmp_path: Path,
    offer: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = Model(reply)
    offer("models", "mine", lambda *_: model)
    settings = Settings(reflection={"backend": "mine"}, early_signs=what)
    engine = Coevolution.from_settings(settings, output_dir=tmp_path)
    policy = Spread()
    with caplog.at_level(logging.WARNING, logger="prompt_coevo"):
        if what == "stop":
            with pytest.raises(EarlySignError, match="contain no candidate"):
                trained(engine, policy)
            assert model.calls <= REPLIES + 8  # those in flight then
        else:
            trained(engine, policy)
            assert model.calls > REPLIES + 8
    (found,) = events(tmp_path, "early_sign")
    assert found["sign"] == "replies_without_text"
    assert (
        f"the first {REPLIES} replies of the reflection model contain no candidate ({said})"
        in (found["reason"])
    )
    assert caplog.text.count("contain no candidate") == 1


def test_replies_that_the_gates_refuse_are_a_sign_and_are_in_the_last_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine, _ = built(tmp_path, f"<template>{'word ' * 2_000}</template>")
    policy = Spread()
    trained(engine, policy)
    engine.end(policy)
    (found,) = events(tmp_path, "early_sign")
    reason = (
        f"the first {REPLIES} replies of the reflection model contain no candidate that passes the gates ("
        "8 refused because it is longer than 1024 tokens); ask it for another kind of text, or change"
    )
    assert found["sign"] == "replies_refused"
    assert reason in found["reason"]
    assert reason in capsys.readouterr().err


def test_a_reply_of_several_candidates_is_one_reply() -> None:
    said: list[str] = []
    signs = ReplySigns(SimpleNamespace(warn_early=lambda sign, sentence: said.append(sign)))  # type: ignore[arg-type]
    request = ProposalRequest("instruction", (EMPTY_TEMPLATE,), (), "any")
    for reply in range(REPLIES):
        assert not said
        proposal = Proposal(request, tuple(f"{reply}-{n}" for n in range(6)), Reply("six"))
        for text in proposal.texts:
            signs.coevo_after_candidate_checked(
                Candidate(text, "instruction"), proposal, "too long"
            )
    assert said == ["replies_refused"]


@pytest.mark.parametrize("refused", [1, 4, 5])
def test_the_advice_is_about_what_most_replies_are(refused: int) -> None:
    said: list[str] = []
    signs = ReplySigns(SimpleNamespace(warn_early=lambda sign, sentence: said.append(sign)))  # type: ignore[arg-type]
    request = ProposalRequest("instruction", (EMPTY_TEMPLATE,), (), "any")
    for reply in range(REPLIES):
        text = Candidate("Think.", "instruction") if reply < refused else None
        proposal = Proposal(request, ("Think.",) if text else (), Reply("Think."))
        signs.coevo_after_candidate_checked(text, proposal, "too long" if text else None)
    assert said == ["replies_refused" if refused > 4 else "replies_without_text"]


def test_one_candidate_ends_the_look(tmp_path: Path) -> None:
    replies = iter(["", "", "<template>think of a word</template>"])
    engine, _ = built(tmp_path, lambda prompt: next(replies, ""))
    trained(engine, Spread())
    assert not events(tmp_path, "early_sign")


def test_calls_that_failed_are_no_replies(tmp_path: Path) -> None:
    def broken(prompt: str) -> str:
        raise ValueError("no server")

    engine, _ = built(tmp_path, broken)
    trained(engine, Spread())
    assert not events(tmp_path, "early_sign")


SIGNS = [
    ({}, lambda n: 0.0, "the deciding reward is 0 for every one"),
    ({}, lambda n: float("nan"), "none has a reward"),
    ({}, lambda n: float(n), "outside success.low = 0 and"),
    ({}, lambda n: 0.5 + n % 2 / 2, "none is hard"),
    ({}, lambda n: n % 2 / 100, "every one is hard"),
]


@pytest.mark.parametrize(("settings", "reward", "said"), SIGNS)
def test_each_sign_ends_the_run_and_its_files_are_complete(
    settings: dict[str, Any], reward: Any, said: str, tmp_path: Path
) -> None:
    engine, teacher = built(tmp_path, knowing, early_signs="stop", **settings)
    policy, steps = Families(), 0
    engine.begin(policy, Workload(32, 4, 8.0, 32))

    def train() -> None:
        nonlocal steps
        for _ in range(32):
            plan = engine.plan(policy.question_ids()[:16], 4)
            version = engine.policy_version
            engine.observe([Rollout.scored(one, "a", reward(one.member), version) for one in plan])
            engine.step_end(policy)
            steps += 1

    with pytest.raises(EarlySignError) as ended:
        train()
    assert steps <= 3
    assert said in str(ended.value)
    assert str(ended.value).endswith('(to train anyway: early_signs = "warn")')
    state = json.loads((tmp_path / "coevo" / "state.json").read_text("utf-8"))
    assert state["step"] == steps
    assert len(events(tmp_path, "training_ended")) == 1
    asked = len(teacher.prompts)
    engine.begin(policy, Workload(32, 4, 8.0, 32))  # the cause is fixed: it trains
    engine.step_end(policy)
    again = Coevolution.from_settings(engine.settings, output_dir=tmp_path / "again")
    again.load_state_dict(engine.state_dict())  # the state can be resumed
    assert len(teacher.prompts) == asked


def test_a_run_that_is_over_is_not_ended_early(tmp_path: Path) -> None:
    engine, _ = built(tmp_path, early_signs="stop")
    policy = Families()
    engine.begin(policy)
    for number in range(4):
        plan = engine.plan(policy.question_ids()[:16], 4)
        version = engine.policy_version
        engine.observe([Rollout.scored(one, "a", 0.0, version) for one in plan])
        engine.step_end(policy, last=number == 3)
    engine.end(policy)
    assert events(tmp_path, "early_sign")


def test_by_default_nothing_ends(tmp_path: Path) -> None:
    engine, _ = built(tmp_path)
    trained(engine, Families(), 3)
    assert len(events(tmp_path, "early_sign")) == 2  # rewards, and replies


def test_a_second_training_says_no_sign_of_the_first(tmp_path: Path) -> None:
    engine, _ = built(tmp_path)
    policy = Families()
    trained(engine, policy)
    assert engine.context.early_said
    engine.end(policy)
    engine.begin(policy, Workload(policy.count, GROUP, 1.0, 4))
    assert engine.context.early_said == []
