"""What a run leaves behind, and that no recorded reply is paid for twice."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from helpers.searches import SMALL_WAVES
from prompt_coevo.engine.journal import Journal
from prompt_coevo.engine.state import read_state, write_json
from prompt_coevo.proposals import Reply, Usage
from prompt_coevo.reflection.paid_replies import PaidReplies
from prompt_coevo.types import Rollout

P2O = SMALL_WAVES


def events(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "coevo" / "events.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def search_once(engine: Any, policy: Any) -> None:
    engine.observe([Rollout(a, "", 0.0) for a in engine.plan(sorted(policy.questions), 2)])
    engine.step_end(policy)
    engine.epoch_end(policy)


def test_every_proposal_is_written_down_rejected_ones_too(
    make_engine: Any, policy: Any, tmp_path: Path
) -> None:
    replies = iter(["<template>k0 k1 k2</template>", "no tags", "<template>k0 k1 k2</template>"])
    engine = make_engine(lambda prompt: next(replies, "<template>"), tmp_path, p2o=P2O)
    search_once(engine, policy)
    written = events(tmp_path)
    assert all({"time", "event", "attempt", "step"} <= set(event) for event in written)
    replies_written = [event for event in written if event["event"] == "reply"]
    checked = [event for event in written if event["event"] == "candidate_checked"]
    assert replies_written[0]["text"] == "<template>k0 k1 k2</template>"
    assert [event["reason"] for event in checked[:2]] == [
        None,
        "it contains no candidate in the expected tags",
    ]
    assert {event["request"] for event in checked} == {
        event["request"] for event in replies_written
    }
    assert checked[0]["candidate"]["text"] == "k0 k1 k2"
    verified = next(event for event in written if event["event"] == "candidate_verified")
    assert verified["candidate"] == checked[0]["candidate"]["id"]
    assert len(verified["questions"]) == len(verified["rewards"]) == 2
    (assigned,) = [event for event in written if event["event"] == "templates_assigned"]
    assert assigned["spent"] <= 40
    assert len(assigned["pool"][0]["dev_scores"]) == len(assigned["dev_questions"]) == 4


def test_a_skipped_search_says_why(make_engine: Any, keyed_policy: Any, tmp_path: Path) -> None:
    search_once(make_engine(output_dir=tmp_path, p2o=P2O), keyed_policy(1))
    (skipped,) = [event for event in events(tmp_path) if event["event"] == "search_skipped"]
    assert skipped["reason"] == "1 hard questions, fewer than min_hard = 2"


def test_a_line_cut_short_by_a_crash_is_passed_over(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write([{"event": "a"}])
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write('{"event": "b", "te')
    assert [event["event"] for event in journal.read()] == ["a"]


def test_the_next_line_after_a_cut_one_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text('{"event": "a"}\n{"event": "b", "te')
    journal = Journal(tmp_path)
    journal.write([{"event": "c"}])
    assert [event["event"] for event in journal.read()] == ["a", "c"]


def test_a_full_disk_is_reported_once_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path)
    assert journal.path is not None
    journal.path.unlink()
    journal.path.mkdir()  # a folder in its place cannot be written to either
    with caplog.at_level(logging.WARNING):
        journal.write([{"event": "a"}])
        journal.write([{"event": "b"}])
    assert len(caplog.records) == 1


def test_any_text_of_a_model_can_be_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    text = "\ud800 \x00 \u202e \n \u2028 ünï"
    journal.write([{"event": "a", "text": text}], sync=True)
    assert next(iter(journal.read()))["text"] == text


class Counting:
    """A model that numbers its replies."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def complete(self, prompts: Any) -> list[Reply]:
        self.asked += prompts
        return [
            Reply(f"{prompt} {n}", "stop", None, Usage(3, 2, 0.5))
            for n, prompt in enumerate(prompts)
        ]


def paid(model: Counting, record: Any = lambda replies: None) -> PaidReplies:
    return PaidReplies(model, {"model": "m", "temperature": 1.0}, record)


def test_replies_are_recorded_before_they_are_used() -> None:
    recorded: list[dict[str, Any]] = []
    replies = paid(Counting(), recorded.extend).complete(["a", "b"])
    assert [entry["text"] for entry in recorded] == [reply.text for reply in replies]


def test_an_earlier_attempts_replies_are_used_once_each() -> None:
    recorded: list[dict[str, Any]] = []
    paid(Counting(), recorded.extend).complete(["a", "b", "a"])
    model = Counting()
    resumed = paid(model)
    resumed.reuse(recorded)
    assert [reply.text for reply in resumed.complete(["a", "c", "a", "a"])] == [
        "a 0",
        "c 0",
        "a 2",
        "a 1",
    ]
    assert model.asked == ["c", "a"]
    assert resumed.totals["calls"] == 4  # those reused were paid as well
    assert resumed.totals["usd"] == 2.0


def test_another_model_is_another_request() -> None:
    model = Counting()
    one = PaidReplies(model, {"model": "m"}, lambda replies: None)
    other = PaidReplies(model, {"model": "n"}, lambda replies: None)
    assert one.request_hash("a") != other.request_hash("a")


def test_a_huge_reply_is_recorded_in_part_and_not_reused() -> None:
    recorded: list[dict[str, Any]] = []
    paid(Counting(), recorded.extend).complete(["x" * 1_000_000])
    assert len(recorded[0]["text"]) == 100_000
    assert recorded[0]["shortened"] > 1_000_000
    model = Counting()
    resumed = paid(model)
    resumed.reuse(recorded)
    resumed.complete(["x" * 1_000_000])
    assert len(model.asked) == 1


def test_a_killed_search_is_not_paid_for_again(
    make_engine: Any, keyed_policy: Any, tmp_path: Path
) -> None:
    calls: list[str] = []

    def reply(prompt: str) -> str:
        calls.append(prompt)
        return f"<template>k{len(calls)}</template>"

    engine = make_engine(reply, tmp_path, p2o=P2O)
    policy = keyed_policy(8)
    engine.observe([Rollout(a, "", 0.0) for a in engine.plan(sorted(policy.questions), 2)])
    engine.step_end(policy)
    checkpoint = engine.state_dict()
    engine.epoch_end(policy)  # and here the run is killed
    paid_for = len(calls)
    assert paid_for
    resumed = make_engine(reply, tmp_path, p2o=P2O)
    resumed.load_state_dict(checkpoint)
    resumed.epoch_end(keyed_policy(8))
    assert len(calls) == paid_for
    assert resumed.state_dict()["plugins"] == engine.state_dict()["plugins"]


def test_state_files_are_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="Out of range float"):
        write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1}


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_a_damaged_state_file_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "coevo_state.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="coevo_state.json"):
        read_state(path)
