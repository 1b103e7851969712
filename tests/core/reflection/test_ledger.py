"""Check the account of calls: only replies in flight can be lost, whatever happens to the file."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prompt_coevo import files
from prompt_coevo.errors import StateError
from prompt_coevo.lines import Lines
from prompt_coevo.proposals import LanguageModel, Reply, Usage
from prompt_coevo.reflection.ledger import Ledger
from prompt_coevo.reflection.paid_replies import PaidReplies
from prompt_coevo.reflection.spending import Spending
from prompt_coevo.threads import in_thread, map_in_threads

MOST = Usage(100, 50, 2.0)
FINE = Reply("fine", "stop", None, Usage(30, 20, 0.5))


def opened(path: Path, *, run: str = "run", resumed: bool = True, since: int = 0) -> Ledger:
    ledger = Ledger(path)
    ledger.open(run, continues=run if resumed else None, since=since)
    return ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


def calls(ledger: Ledger, *requests: str) -> list[Any]:
    return [ledger.asked(request, (1, place), MOST) for place, request in enumerate(requests)]


class Numbered:
    """Answers with the number of its call."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def complete(self, prompts: Any) -> list[Reply]:
        self.asked += prompts
        return [
            Reply(f"{prompt} {len(self.asked)}", "stop", None, FINE.usage) for prompt in prompts
        ]


def earlier_reply(ledger: Ledger, request: str) -> Reply | None:
    found = ledger.earlier_answer(request)
    return found and found[1]


def paid(model: LanguageModel, ledger: Ledger, **limits: float) -> PaidReplies:
    return PaidReplies(model, {"model": "m"}, ledger, spending=Spending(limits))


def test_one_slow_call_of_sixteen_costs_a_kill_one_reply_not_fifteen(path: Path) -> None:
    ledger = opened(path, resumed=False)
    asked = calls(ledger, *map(str, range(16)))
    for call in asked[1:]:
        ledger.answered(call, FINE, 1.0)  # the run is killed here, with call 0 in flight
    resumed = opened(path)
    assert [earlier_reply(resumed, str(n)) for n in range(16)] == [None, *[FINE] * 15]
    assert resumed.lost == 1
    assert resumed.totals["calls"] == 16
    assert resumed.totals["usd"] == 15 * 0.5 + 2.0  # the one that is lost may have cost as much


def test_a_cap_of_sixteen_calls_stays_one_across_kills(path: Path) -> None:
    asked = []
    for _ in range(3):  # as attempts that are killed before their first checkpoint
        model = Numbered()
        replies = paid(model, opened(path, resumed=False), max_calls=16).complete(
            [str(n) for n in range(20)]
        )
        assert [reply.text is not None for reply in replies] == [True] * 16 + [False] * 4
        asked += model.asked
    assert len(asked) == 16


def test_replies_are_used_again_in_the_order_of_asking_not_of_answering(path: Path) -> None:
    ledger = opened(path, resumed=False)
    first, second = calls(ledger, "same", "same")
    ledger.answered(second, Reply("for the second"), 1.0)
    ledger.answered(first, Reply("for the first"), 1.0)
    resumed = opened(path)
    texts = [reply.text for _ in range(2) if (reply := earlier_reply(resumed, "same"))]
    assert texts == ["for the first", "for the second"]
    assert earlier_reply(resumed, "same") is None


def test_what_the_checkpoint_knows_is_not_used_again(path: Path) -> None:
    ledger = opened(path, resumed=False)
    known, under_way = calls(ledger, "known", "under way")
    ledger.answered(known, FINE, 1.0)
    position = ledger.position  # the checkpoint
    ledger.answered(under_way, FINE, 1.0)
    resumed = opened(path, since=position)
    assert earlier_reply(resumed, "known") is None
    assert earlier_reply(resumed, "under way") == FINE
    assert resumed.totals["calls"] == 2


def test_another_runs_account_is_neither_counted_nor_used(path: Path) -> None:
    ledger = opened(path, run="one", resumed=False)
    ledger.answered(calls(ledger, "a")[0], FINE, 1.0)
    other = opened(path, run="other", resumed=False)
    assert other.totals["calls"] == 0
    assert earlier_reply(other, "a") is None
    again = opened(path, run="other", resumed=False)
    assert again.totals["calls"] == 0
    forced = opened(path, run="third", resumed=True)
    forced.asked("b", (1, 0), MOST)
    assert opened(path, run="third", resumed=False).totals["calls"] == 1


def test_a_run_that_goes_on_behind_another_one_has_its_own_account(path: Path) -> None:
    """The run was killed, and its checkpoint was resumed after another run had used the folder."""
    ledger = opened(path, run="one", resumed=False)
    saved = ledger.position
    ledger.answered(calls(ledger, "a")[0], FINE, 1.0)
    other = opened(path, run="other", resumed=False)
    other.answered(calls(other, "b")[0], FINE, 1.0)
    calls(other, "c")
    for _ in range(2):
        again = opened(path, run="one", since=saved)
        assert again.totals["calls"] == 1
        assert earlier_reply(again, "b") is None
        assert earlier_reply(again, "a") == FINE
    assert opened(path, run="other", resumed=False).totals["calls"] == 2


def test_calls_are_numbered_one_after_the_other(path: Path) -> None:
    ledger = opened(path, resumed=False)
    for text in "ab":
        ledger.answered(calls(ledger, text)[0], FINE, 1.0)
    assert calls(opened(path, since=ledger.position), "c")[0].number == 3


def test_a_run_that_goes_on_as_another_one_keeps_its_account(path: Path) -> None:
    ledger = opened(path, run="one", resumed=False)
    ledger.answered(calls(ledger, "a")[0], FINE, 1.0)
    forced = Ledger(path)
    forced.open("two", continues="one")
    assert earlier_reply(forced, "a") == FINE
    calls(forced, "b")
    assert opened(path, run="two").totals["calls"] == 2
    assert opened(path, run="one").totals["calls"] == 2


def test_in_a_new_folder_replies_are_used_again_too(path: Path) -> None:
    """The checkpoint refers to a ledger that is not there."""
    for _ in range(2):
        ledger = Ledger(path)
        ledger.open("run", continues="run", since=40, under_way=[1])
        ledger.carry_over({"calls": 7})
        if earlier_reply(ledger, "a") is None:
            ledger.answered(calls(ledger, "a")[0], FINE, 1.0)
    assert ledger.totals["calls"] == 8


def test_a_run_that_ended_well_is_over(path: Path) -> None:
    ledger = opened(path, resumed=False)
    ledger.answered(calls(ledger, "a")[0], FINE, 1.0)
    ledger.close()
    assert opened(path, resumed=False).totals["calls"] == 0


def test_a_run_that_ended_may_go_on_with_its_account(path: Path) -> None:
    ledger = opened(path, resumed=False)
    ledger.answered(calls(ledger, "a")[0], FINE, 1.0)
    ledger.close()
    ledger.go_on("run", continues="run")
    ledger.answered(calls(ledger, "b")[0], FINE, 1.0)
    assert opened(path, resumed=False).totals["calls"] == 2  # it was killed there


def test_an_account_ends_once(path: Path) -> None:
    """Ending it again must be possible while another run writes to the file."""
    ended = opened(path, resumed=False)
    ended.close()
    other = opened(path, run="other", resumed=False)
    other.answered(calls(other, "a")[0], FINE, 1.0)
    ended.close()
    assert opened(path, run="other").totals["calls"] == 1


def test_a_late_reply_is_in_the_account_that_asked(path: Path) -> None:
    ended = opened(path, resumed=False)
    (late,) = calls(ended, "a")
    ended.close()
    other = opened(path, run="other", resumed=False)
    ended.answered(late, FINE, 1.0)
    assert opened(path, run="other").totals["calls"] == 0
    assert earlier_reply(other, "a") is None


def test_what_a_checkpoint_knows_and_the_file_does_not_is_carried_over(path: Path) -> None:
    moved = opened(path)
    moved.carry_over({"calls": 7, "errors": 1, "usd": 3.5, "seconds": 2.0})
    moved.carry_over({"calls": 7, "errors": 1, "usd": 3.5, "seconds": 2.0})
    assert moved.totals["calls"] == 7
    assert opened(path).totals["usd"] == 3.5


def test_a_newer_schema_is_refused(path: Path) -> None:
    opened(path, resumed=False)
    line = json.loads(path.read_text())
    del line["sum"]
    line["schema"] = 9
    # Written by a version that sums as this one does.
    from prompt_coevo.reflection import ledger as module

    path.write_text(json.dumps({**line, "sum": module._sum(line)}) + "\n")
    with pytest.raises(StateError, match=r"calls\.jsonl has schema 9, .* reads schema 1"):
        opened(path)


def test_a_folder_in_its_place_is_named(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StateError, match=r"calls\.jsonl cannot be read"):
        opened(path)


def test_a_call_that_cannot_be_written_down_is_not_made(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Numbered()
    asking = paid(model, opened(path, resumed=False))
    with monkeypatch.context() as patch:
        patch.setattr(files, "append", full)
        (reply,) = asking.complete(["a"])
    assert reply.error == (
        "the ledger of calls cannot be written, so no call is made: No space left on device"
    )
    assert model.asked == []
    assert asking.complete(["a"])[0].text == "a 1"


def test_a_reply_that_cannot_be_written_down_is_not_used_and_counts(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(path, resumed=False)
    write = files.append

    class Full(Numbered):
        def complete(self, prompts: Any) -> list[Reply]:
            monkeypatch.setattr(files, "append", full)
            return super().complete(prompts)

    asking = paid(Full(), ledger)
    (reply,) = asking.complete(["a"])
    monkeypatch.setattr(files, "append", write)
    assert reply.text is None
    assert "the reply is not used" in (reply.error or "")
    assert ledger.totals["calls"] == 1
    resumed = opened(path)
    assert (resumed.lost, resumed.totals["calls"]) == (1, 1)


def full(*args: Any, **kwargs: Any) -> None:
    raise OSError(28, os.strerror(28))


def history(path: Path) -> bytes:
    """Record twelve calls: ten answered, one abandoned, one in flight."""
    ledger = opened(path, resumed=False)
    asked = calls(ledger, *map(str, range(12)))
    for call in asked[:10]:
        ledger.answered(call, FINE, 1.0)
    ledger.answered(asked[10], Reply(None, error="busy"), 1.0)
    return path.read_bytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(cut=st.floats(0, 1))
def test_wherever_the_file_is_cut_what_stands_before_is_kept(cut: float, path: Path) -> None:
    path.unlink(missing_ok=True)
    whole = history(path)
    path.write_bytes(whole[: int(cut * len(whole))])
    # The last line may lack only its newline.
    events = [line["event"] for line in Lines(path).read() if line is not None]
    ledger = opened(path)
    assert ledger.totals["calls"] == events.count("asked")
    answered = events.count("answered")
    assert sum(earlier_reply(ledger, str(n)) == FINE for n in range(12)) == answered
    ledger.answered(ledger.asked("new", (99, 0), MOST), FINE, 1.0)
    assert earlier_reply(opened(path), "new") == FINE  # it is not glued to the torn line


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_costs_a_line_and_gives_no_false_reply(
    place: float, bit: int, path: Path
) -> None:
    path.unlink(missing_ok=True)
    whole = bytearray(history(path))
    whole[int(place * len(whole))] ^= 1 << bit
    path.write_bytes(whole)
    ledger = opened(path)
    replies = [earlier_reply(ledger, str(n)) for n in range(12)]
    assert set(replies) <= {FINE, None}
    assert sum(reply == FINE for reply in replies) >= 8  # a newline that is none costs two lines
    assert ledger.totals["calls"] >= 10
    assert 1 <= ledger.damaged <= 2


def test_the_account_of_many_threads_is_whole(path: Path) -> None:
    ledger = opened(path, resumed=False)

    def ask(number: int) -> None:
        for _ in range(5):
            ledger.answered(ledger.asked(str(number), (number, 0), MOST), FINE, 1.0)

    map_in_threads(ask, range(8), 8)
    again = opened(path)
    assert again.totals == ledger.totals
    assert (again.totals["calls"], again.lost, again.damaged) == (40, 0, 0)


def test_a_reply_that_comes_after_everybody_went_is_in_the_account(path: Path) -> None:
    ledger = opened(path, resumed=False)
    (call,) = calls(ledger, "late")
    in_thread(lambda: ledger.answered(call, FINE, 1.0)).result(300)
    assert earlier_reply(opened(path), "late") == FINE


@pytest.mark.parametrize(
    "record",
    [
        {"event": "carried_over", "totals": "none"},
        {"event": "answered", "call": 1, "request": "r", "place": [1, 0], "reply": ["yes"]},
        {
            "event": "answered",
            "call": 1,
            "request": "r",
            "place": [1, 0],
            "reply": {"text": 7, "usage": {}},
        },
        {"event": "asked", "call": 1, "request": "r", "place": [1], "most": {}},
    ],
)
def test_a_line_made_by_hand_counts_as_damaged(path: Path, record: dict[str, Any]) -> None:
    ledger = opened(path, resumed=False)
    ledger._write(**record)
    again = opened(path)
    assert (again.damaged, earlier_reply(again, "r")) == (1, None)


def test_a_batch_that_was_under_way_keeps_the_replies_that_it_had(path: Path) -> None:
    ledger = opened(path, resumed=False)
    whole, half = calls(ledger, "a", "b")
    ledger.answered(whole, FINE, 1.0)
    ledger.answered(half, FINE, 1.0)
    again = Ledger(path)
    again.open("run", continues="run", since=ledger.position, under_way=[half.number])
    assert (earlier_reply(again, "a"), earlier_reply(again, "b")) == (None, FINE)


def test_replies_that_wait_for_their_use_outlive_another_checkpoint(path: Path) -> None:
    """A run resumes from an older checkpoint, saves, and is killed before it catches up."""
    first = Numbered()
    ledger = opened(path, resumed=False)
    paid(first, ledger).complete(["before"])
    older = ledger.position
    for prompt in ("again", "later"):
        paid(first, ledger).complete([prompt])
    ledger = opened(path, since=older)
    second = paid(Numbered(), ledger)
    second.complete(["again"])
    saved = {"since": ledger.position, "under_way": second.under_way}
    third, ledger = Numbered(), Ledger(path)
    ledger.open("run", continues="run", **saved)  # type: ignore[arg-type]
    replies = paid(third, ledger).complete(["later", "again"])
    assert replies[0].text == "later 3"
    assert third.asked == ["again"]


def test_replies_that_are_worked_on_in_the_background_are_known_to_no_state_yet(path: Path) -> None:
    ledger = opened(path, resumed=False)
    replies = paid(Numbered(), ledger)
    answered, go_on = threading.Event(), threading.Event()

    def propose() -> None:
        replies.complete(["a", "b"])
        answered.set()
        go_on.wait()

    work = in_thread(propose)
    answered.wait()
    assert replies.under_way == [1, 2]
    go_on.set()
    work.result()
    assert replies.under_way == []
    replies.complete(["c"])
    assert replies.under_way == []
