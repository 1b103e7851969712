"""Check the files that a run leaves, and that no recorded reply is paid for twice."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.searches import SMALL_SEARCH
from prompt_coevo import Coevolution, Settings, files, hookimpl
from prompt_coevo.engine.journal import Journal
from prompt_coevo.engine.state import plugin_states, read_state, seal, unseal, write_json
from prompt_coevo.errors import StateError
from prompt_coevo.lines import Lines
from prompt_coevo.reflection.function_model import FunctionModel
from prompt_coevo.types import Rollout

P2O = SMALL_SEARCH


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
    engine.begin(policy)
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
    texts = {event["id"]: event["text"] for event in written if event["event"] == "text"}
    assert len(texts) == sum(event["event"] == "text" for event in written)  # each once
    questions = [policy.question(name).prompt for name in verified["questions"]]
    assert [texts[one] for one in verified["question_texts"]] == questions
    for name in ("parent_completions", "completions"):
        assert {texts[one] for one in verified[name]} <= {"right", "wrong"}
    assert "{{" not in texts[replies_written[0]["prompt"]]
    assert "<template>" in texts[replies_written[0]["prompt"]]
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
    journal.write([{"event": "a", "text": text}])
    assert next(iter(journal.read()))["text"] == text


def test_a_killed_search_is_not_paid_for_again(
    make_engine: Any, keyed_policy: Any, tmp_path: Path
) -> None:
    calls: list[str] = []

    def reply(prompt: str) -> str:
        calls.append(prompt)
        return f"<template>k{len(calls)}</template>"

    engine = make_engine(reply, tmp_path, p2o=P2O)
    policy = keyed_policy(8)
    engine.begin(policy)
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
    assert plugin_states(resumed.state_dict()) == plugin_states(engine.state_dict())


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


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe\x00",
        b'{"event": "b", "text": "\xc3"}',
        b"[" * 100_000,
        b'{"event": "b", "attempt": "many"}',
        b'{"event": "b", "attempt": -3}',
        b'{"event": "b", "attempt": true}',
        b'{"event": "b", "attempt": null}',
        b"[1, 2]",
        b"null",
        b"\x00" * 5000,
    ],
)
def test_no_line_can_stop_a_start(line: bytes, make_engine: Any, tmp_path: Path) -> None:
    first = make_engine(output_dir=tmp_path, p2o=P2O)
    state = first.state_dict()
    path = tmp_path / "coevo" / "events.jsonl"
    path.write_bytes(path.read_bytes() + line + b"\n")
    second = make_engine(output_dir=tmp_path, p2o=P2O)
    assert second.policy_version.attempt == 1
    second.load_state_dict(state)
    assert {event["event"] for event in second.context.journal.read()} >= {"state_saved", "resumed"}


def test_what_was_lost_while_the_disk_was_full_is_a_gap_and_the_next_line_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path)
    journal.write([{"event": "a"}])
    write = files.append

    def cut(path: Path, data: bytes, *, sync: bool = False) -> None:
        write(path, data[:20], sync=sync)
        raise OSError(28, "No space left on device")

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(files, "append", cut)
            journal.write([{"event": "b"}, {"event": "c"}])
            journal.write([{"event": "d"}])
        journal.write([{"event": "e"}])
    told = [(event["event"], event.get("lost")) for event in journal.read()]
    assert told == [("a", None), *[("gap", 3), ("e", None)] * 2]
    assert list(journal.lines()).count(None) == 4
    warnings = [record for record in caplog.records if "cannot be written" in record.message]
    assert len(warnings) == 2  # once each time


def test_a_long_journal_is_put_aside_in_parts_and_read_as_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path, max_file_mb=0.001)
    for number in range(60):
        journal.write([{"event": "a", "number": number, "attempt": 4, "text": "x" * 100}])
    parts = sorted(path.name for path in tmp_path.iterdir())
    assert len(parts) > 5
    assert parts[:2] == ["events.0001.jsonl", "events.0002.jsonl"]
    assert max(path.stat().st_size for path in tmp_path.iterdir()) < 1500
    again = Journal(tmp_path, max_file_mb=0.001)
    assert [event["number"] for event in again.read()] == list(range(60))
    assert again.last_attempt() == 4


def test_threads_that_write_at_once_lose_no_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replies of the reflection model are journaled by their threads, and a full file is renamed."""
    journal = Journal(tmp_path, max_file_mb=0.001)
    rename = files.rename
    other = threading.Thread(target=journal.write, args=([{"event": "b"}],))

    def while_another_writes(path: Path, new: Path) -> None:
        if other.ident is None:
            other.start()
            other.join(0.2)
        rename(path, new)

    monkeypatch.setattr(files, "rename", while_another_writes)
    for _ in range(2):
        journal.write([{"event": "a", "text": "x" * 2000}])
    other.join()
    assert [event["event"] for event in journal.read()] == ["a", "a", "b"]


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_no_part_takes_the_place_of_another(gone: int, tmp_path: Path) -> None:
    journal = Journal(tmp_path, max_file_mb=0.0001)
    for number in range(4):
        journal.write([{"event": "a", "number": number, "text": "x" * 100}])
    sorted(tmp_path.glob("events.0*.jsonl"))[gone].unlink()
    for number in range(4, 8):
        journal.write([{"event": "a", "number": number, "text": "x" * 100}])
    rest = [number for number in range(8) if number != gone]
    assert [event["number"] for event in journal.read()] == rest


def test_parts_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (9999, 10000):
        (tmp_path / f"events.{number}.jsonl").write_text(f'{{"number": {number}}}\n')
    (tmp_path / "events.10000.copy.jsonl").write_text('{"number": 0}\n')
    assert [event["number"] for event in Journal(tmp_path).read()] == [9999, 10000]


class Counted(bytes):
    """Counts the bytes that are looked through for lines."""

    looked_through = 0

    def __add__(self, other: bytes) -> Counted:
        return Counted(bytes(self) + other)

    def split(self, *args: Any, **kwargs: Any) -> list[bytes]:
        Counted.looked_through += len(self)
        return super().split(*args, **kwargs)


def test_a_long_line_is_looked_through_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b'{"a": 1}\n' + b"\0" * 5_000_000)
    with path.open("rb") as file:
        reader = SimpleNamespace(seek=file.seek, read=lambda size: Counted(file.read(size)))
        monkeypatch.setattr(Path, "open", lambda *_: nullcontext(reader))
        assert list(Lines(path).backwards()) == [None, {"a": 1}]
    assert Counted.looked_through == path.stat().st_size


@pytest.mark.parametrize("tail", [b"", b"x" * 200_000, b"\n" * 100_000, b"\xff\n" * 70_000])
def test_the_last_attempt_is_found_behind_whatever_follows(tail: bytes, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for attempt in range(4):
        journal.write([{"event": "a", "attempt": attempt, "text": "y" * 100_000}])
    path = tmp_path / "events.jsonl"
    path.write_bytes(path.read_bytes() + tail)
    assert Journal(tmp_path).last_attempt() == 3


def test_nothing_that_is_written_holds_a_key(
    make_engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {
        "API_KEY": "sk-plain-0001",
        "OPENAI_KEY": "sk-short-0002",
        "MY_SECRET": "s3cr3t-0003",
        "WANDB_API_KEY": "wandb-000004",
        "DB_PASSWORD": "hunter2-0005",
    }
    for name, key in keys.items():
        monkeypatch.setenv(name, key)
    address = "https://user:pass-0006@host/v1?key=query-0007&x=1"
    everything = " ".join([*keys.values(), address])
    engine = make_engine(lambda prompt: f"<template>{everything}</template>", tmp_path, p2o=P2O)
    engine.context.note("any", text=everything, deep=[{"a": (everything,)}], **{everything: 1})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.context.plugins, "first", lambda *_, **__: 1 / 0)
        engine.context.note("veto", reason=engine.context.check(lambda: None))
    (reply,) = engine.context.language_model().complete(["a prompt"])
    written = b"".join(path.read_bytes() for path in (tmp_path / "coevo").iterdir()).decode()
    for secret in [*keys.values(), "pass-0006"]:
        assert secret not in written
        assert secret not in (reply.text or "")
    journal = (tmp_path / "coevo" / "events.jsonl").read_text()
    assert "query-0007" not in journal
    assert "a prompt" in journal


def test_a_key_of_the_settings_is_in_no_reply_and_no_error(offer: Any, tmp_path: Path) -> None:
    """A server may quote the key both in answers and in errors."""
    key = "given-key-0008"
    said = iter([f"<template>{key}</template>", ValueError(f"401 {key}")])

    def quoting(prompt: str) -> str:
        one = next(said)
        if isinstance(one, Exception):
            raise one
        return one

    offer("models", "quoting", lambda reflection, initial: FunctionModel(quoting))
    settings = Settings(
        algorithms="p2o", p2o=P2O, reflection={"backend": "quoting", "api_key": key}
    )
    engine = Coevolution.from_settings(settings, output_dir=tmp_path)
    replies = [engine.context.language_model().complete([text])[0] for text in "ab"]
    assert key not in repr(replies)
    written = b"".join(path.read_bytes() for path in (tmp_path / "coevo").iterdir()).decode()
    assert key not in written
    assert "401 [api key]" in written


class Refused:
    """A plugin whose server quotes the key."""

    @hookimpl
    def coevo_step_end(self) -> None:
        raise RuntimeError("401 for sk-plain-0001 and sk-given-0002")


def test_the_log_of_a_plugin_that_raises_holds_no_key(
    policy: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OWN_API_KEY", "sk-plain-0001")
    settings = Settings(algorithms=(), reflection={"model": "a/b", "api_key": "sk-given-0002"})
    engine = Coevolution.from_settings(settings, plugins={"refused": Refused()})
    engine.begin(policy)
    engine.step_end(policy)
    assert "sk-plain-0001" not in caplog.text
    assert "sk-given-0002" not in caplog.text
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    said = record.getMessage()
    assert said.startswith("the plugin 'refused' raised in coevo_step_end:\nTraceback")
    assert said.endswith("RuntimeError: 401 for [api key] and [api key]")


def test_long_texts_in_the_journal_are_cut(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write([{"event": "any", "text": "x" * 20_050, "deep": [{"a": "y" * 20_001}]}])
    (event,) = journal.read()
    assert event["text"] == "x" * 20_000 + " [50 characters more]"
    assert event["deep"] == [{"a": "y" * 20_000 + " [1 characters more]"}]


def test_a_key_is_taken_out_before_a_text_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_API_KEY", "sk-plain-0001")
    journal = Journal(tmp_path, max_text_chars=100)
    journal.write([{"event": "any", "text": "x" * 95 + "sk-plain-0001" + "y" * 50}])
    (event,) = journal.read()
    assert event["text"] == "x" * 95 + "[api  [54 characters more]"


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (RuntimeError("401 for sk-plain-0001"), "401 for [api key]"),
        (Path("/a/sk-plain-0001"), "/a/[api key]"),
        ({"sk-plain-0001"}, "{'[api key]'}"),
        (b"sk-plain-0001", "b'[api key]'"),
        ({("a", "sk-plain-0001"): {None: 1}}, {"('a', '[api key]')": {"None": 1}}),
        ([Unshowable()], ["Unshowable that cannot be shown: RuntimeError"]),
        ([1, 1.5, True, None], [1, 1.5, True, None]),
    ],
)
def test_what_is_no_text_is_written_as_one_redact(value: Any, shown: Any, tmp_path: Path) -> None:
    journal = Journal(tmp_path, secrets=["sk-plain-0001"])
    journal.write([{"event": "a", "value": value}])
    (event,) = journal.read()
    assert event["value"] == shown


def looped() -> dict[str, Any]:
    loop: dict[str, Any] = {"key": "sk-plain-0001"}
    loop["itself"] = loop
    return loop


def bottomless() -> list[Any]:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    return deep


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (looped(), "{'key': '[api key]', 'itself': {...}}"),
        (bottomless(), "list that cannot be shown: RecursionError"),
    ],
)
def test_a_value_without_end_is_written_as_a_text_beside_the_others(
    value: Any, shown: str, tmp_path: Path
) -> None:
    journal = Journal(tmp_path, secrets=["sk-plain-0001"])
    journal.write([{"event": "a", "attempt": 3, "value": value}])
    (event,) = journal.read()
    assert event["value"] == shown
    assert journal.last_attempt() == 3


def test_a_line_in_another_encoding_is_damaged_wherever_it_stands(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "lines.jsonl")
    lines.path.write_bytes(b'{"a": 1}\n' + "{}".encode("utf-16-le"))
    assert list(lines.read()) == [{"a": 1}, None]
    assert list(lines.backwards()) == [None, {"a": 1}]
    lines.path.write_bytes("{}".encode("utf-16-le") + b'\n{"a": 1}')
    assert list(lines.read()) == [None, {"a": 1}]
    assert list(lines.backwards()) == [{"a": 1}, None]


@pytest.mark.parametrize("attempt", [-1, 10**12, int("9" * 4300), 1.5, "7", None])
def test_a_number_that_no_attempt_has_is_passed_over(tmp_path: Path, attempt: Any) -> None:
    journal = Journal(tmp_path)
    journal.write([{"event": "a", "attempt": 3}, {"event": "b", "attempt": attempt}])
    assert journal.last_attempt() == 3


@pytest.mark.parametrize("name", ["attempt", "step", "round", "epochs", "ledger"])
def test_a_state_with_a_number_beyond_all_counting_is_refused(name: str) -> None:
    state = Coevolution.from_settings(Settings(reflection={"function": str})).state_dict()
    body = {key: value for key, value in state.items() if key not in ("schema", "checksum")}
    assert unseal(seal(body)).attempt == 0
    with pytest.raises(StateError, match=f"not one that prompt_coevo wrote .{name}: "):
        unseal(seal({**body, name: int("9" * 4300)}))


def test_a_step_of_many_ids_is_written_without_a_search_in_each(tmp_path: Path) -> None:
    """A step's thousands of ids contain no address; searching each one was most of the cost."""
    uses = [[f"{number:016x}", "5c3be911", 6, 0.5] for number in range(500)]
    called: Counter[str] = Counter()

    def count(frame: Any, event: str, function: Any) -> None:
        if event in ("call", "c_call"):
            called[frame.f_code.co_name if event == "call" else function.__name__] += 1

    journal = Journal(tmp_path)
    sys.setprofile(count)
    try:
        journal.write([{"event": "rewards", "uses": uses, "at": "http://me:secret@host/x?key=1"}])
    finally:
        sys.setprofile(None)
    assert called["_writable"] > 2_000  # it does count
    assert called["sub"] == 2  # in the one address: its user, and its query
    assert called["__instancecheck__"] < 50
    (event,) = journal.read()
    assert event["uses"] == uses
    assert event["at"] == "http://host/x?[query]"
