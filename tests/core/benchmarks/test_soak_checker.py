"""Check that the soak's checker reports every fault in a forged folder and none in an honest one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import checker
import pytest
from evidence import note_kill

from prompt_coevo.engine.journal import Journal
from prompt_coevo.lines import Lines
from prompt_coevo.proposals import Reply, Usage
from prompt_coevo.reflection.ledger import Call, Ledger

MAX_CALLS = 5
MOST = Usage(50, 60)
COST = Usage(10, 5)


class Run:
    """Write the files of a run: two attempts and four calls, one of them lost in the kill between."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "coevo").mkdir(parents=True)
        self.attempt = -1
        self.ledger = Ledger(None)
        self.journal = Journal(folder / "coevo")
        self.calls = 0

    def start(
        self, checksum: str | None = None, since: int = 0, under_way: Sequence[int] = ()
    ) -> None:
        self.attempt += 1
        self.ledger = Ledger(self.folder / "coevo" / "calls.jsonl")
        self.ledger.open(
            "run", continues="run" if checksum else None, since=since, under_way=under_way
        )
        line = self.ledger.position
        fields = {"checksum": checksum, "since": since, "under_way": [*under_way], "line": line}
        self.record("start", attempt=self.attempt, **fields)
        self.tell("resumed" if checksum else "run_begins")

    def record(self, event: str, **fields: Any) -> None:
        Lines(self.folder / "record.jsonl").append([{"event": event, **fields}])

    def tell(self, event: str, **fields: Any) -> None:
        self.journal.write([{"event": event, "attempt": self.attempt, **fields}])

    def plan(self, number: int, text: str = "") -> None:
        self.record("plan", attempt=self.attempt, round=number, plan=[["q", "", text]])

    def ask(self, request: str) -> Call:
        call = self.ledger.asked(request, (self.ledger.position, 0), MOST)
        Lines(self.folder / "teacher.jsonl").append([{"asked": call.number}])
        return call

    def answer(self, call: Call) -> None:
        reply = Reply("text", "stop", usage=COST)
        self.ledger.answered(call, reply, 0.1)
        self.tell("text", id=call.request)
        self.tell("reply", call=call.number, request=call.request, prompt=call.request)

    def reuse(self, request: str) -> None:
        found = self.ledger.earlier_answer(request)
        assert found is not None
        self.record("reused", call=found[0], request=request)

    def decide(self, what: str, request: str) -> None:
        self.tell("candidate_checked", what=what, request=request)

    def save(self, checksum: str) -> int:
        position = self.ledger.position
        self.record("saved", checksum=checksum)
        self.tell("state_saved", checksum=checksum)
        return position

    def kill(self, how: str = "all") -> None:
        note_kill(self.folder, "any", how)

    def end(self) -> None:
        totals = self.ledger.totals
        self.tell("training_ended", metrics={f"coevo/reflection_{k}": v for k, v in totals.items()})
        self.ledger.close()


def honest(folder: Path, *, second: Callable[[Run], None] | None = None) -> Run:
    """Write a run that was killed once; `second` replaces what its second attempt did up to its end."""
    run = Run(folder)
    run.start()
    run.plan(0)
    run.answer(run.ask("a"))
    run.decide("a", "a")
    since = run.save("c1")
    run.plan(1)
    run.answer(run.ask("b"))
    run.decide("b", "b")
    run.ask("c")
    run.kill()
    run.start("c1", since)
    (second or second_attempt)(run)
    return run


def second_attempt(run: Run) -> None:
    run.reuse("b")
    rest(run)


def rest(run: Run) -> None:
    run.plan(1)
    run.decide("b", "b")
    run.answer(run.ask("c"))
    run.plan(2)
    run.end()


def broken(folder: Path, max_calls: int = MAX_CALLS, **more: Any) -> str:
    return "; ".join(checker.check(folder, max_calls, **more)["broken"])


def edit(path: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Rewrite the lines of a file."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in change(lines)))


def without(**fields: Any) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Drop the lines with these fields; at least one must match."""

    def change(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept = [one for one in lines if not fields.items() <= one.items()]
        assert len(kept) < len(lines)
        return kept

    return change


def test_an_honest_run(tmp_path: Path) -> None:
    honest(tmp_path / "run")
    found = checker.check(tmp_path / "run", MAX_CALLS)
    assert found["broken"] == []
    assert found["calls"] == 4
    assert found["lost"] == found["reused"] == found["kills"] == found["planned_again"] == 1
    honest(tmp_path / "again")
    assert not broken(tmp_path / "run", undisturbed=_summary(tmp_path))


def _summary(tmp_path: Path) -> dict[str, Any]:
    """Summarise the same run without a kill."""
    run = Run(tmp_path / "undisturbed")
    run.start()
    for number, request in enumerate("abc"):
        run.plan(number)
        run.answer(run.ask(request))
        if request != "c":
            run.decide(request, request)
    run.save("c1")
    run.end()
    return checker.summary(run.folder)


def test_another_plan(tmp_path: Path) -> None:
    def second(run: Run) -> None:
        run.reuse("b")
        run.plan(1, "otherwise")
        rest(run)

    run = honest(tmp_path, second=second)
    assert "round 1 is planned otherwise in attempt 1" in broken(run.folder)


def test_a_round_that_is_missing(tmp_path: Path) -> None:
    run = honest(tmp_path)
    edit(run.folder / "record.jsonl", without(event="plan", round=1))
    assert "only 2 were planned" in broken(run.folder)


def test_a_decision_that_does_not_come_again(tmp_path: Path) -> None:
    def second(run: Run) -> None:
        run.reuse("b")
        run.plan(1)
        run.decide("something else", "b")
        run.answer(run.ask("c"))
        run.end()

    run = honest(tmp_path, second=second)
    assert "decided before a kill, and not after it" in broken(run.folder)


def test_a_call_that_the_ledger_does_not_know(tmp_path: Path) -> None:
    run = honest(tmp_path)
    Lines(run.folder / "teacher.jsonl").append([{"asked": 4}])
    assert "at the end the teacher was asked 5 times, the ledger says 4" in broken(run.folder)


def test_a_call_that_the_ledger_learns_of_after_a_kill(tmp_path: Path) -> None:
    run = honest(tmp_path)
    edit(run.folder / "kills.jsonl", lambda kills: [{**kills[0], "seen": 4}])
    assert "at kill 1 the teacher was asked 4 times, the ledger says 3" in broken(run.folder)


def test_a_budget_that_was_exceeded(tmp_path: Path) -> None:
    run = honest(tmp_path)
    assert not broken(run.folder, 4)
    assert "at the end 4 calls, above the budget of 3" in broken(run.folder, 3)


@pytest.mark.parametrize("name", ["calls", "prompt_tokens", "completion_tokens"])
def test_lost_calls_that_do_not_count(tmp_path: Path, name: str) -> None:
    def forgetful(run: Run) -> None:
        run.reuse("b")
        run.plan(1)
        run.decide("b", "b")
        run.answer(run.ask("c"))
        run.plan(2)
        least = {"calls": 3, "prompt_tokens": 30, "completion_tokens": 15}
        spent = {**run.ledger.totals, name: least[name]}
        run.tell("training_ended", metrics={f"coevo/reflection_{k}": v for k, v in spent.items()})

    run = honest(tmp_path, second=forgetful)
    assert f"{name}, the ledger says" in broken(run.folder)


def test_a_reply_that_is_paid_for_again(tmp_path: Path) -> None:
    def second(run: Run) -> None:
        run.answer(run.ask("b"))
        rest(run)

    run = honest(tmp_path, second=second)
    assert "call 2 was answered before attempt 1 and paid for again as 4" in broken(run.folder)


def test_equal_prompts_in_two_places_are_no_payment_for_the_same(tmp_path: Path) -> None:
    def second(run: Run) -> None:
        run.reuse("b")
        run.answer(run.ask("b"))
        rest(run)

    assert not broken(honest(tmp_path, second=second).folder)


def test_a_reply_that_is_never_used(tmp_path: Path) -> None:
    run = honest(tmp_path, second=rest)
    assert "the reply to call 2 was there for attempt 1 and was never used" in broken(run.folder)


def test_a_reply_that_is_used_twice(tmp_path: Path) -> None:
    def second(run: Run) -> None:
        run.reuse("b")
        run.record("reused", call=2, request="b")
        rest(run)

    run = honest(tmp_path, second=second)
    assert "attempt 1 used the reply to call 2 2 times" in broken(run.folder)


def test_a_reply_that_the_checkpoint_knows(tmp_path: Path) -> None:
    def second(run: Run) -> None:
        run.record("reused", call=1, request="a")
        second_attempt(run)

    run = honest(tmp_path, second=second)
    assert "used the reply to call 1, which its checkpoint knows" in broken(run.folder)


def test_a_reply_that_a_later_checkpoint_forgets(tmp_path: Path) -> None:
    """The reply was used after a saved state that does not name it, so the next attempt would pay again."""

    def second(run: Run) -> None:
        since = run.save("c2")
        run.reuse("b")
        run.kill()
        run.start("c2", since)
        rest(run)

    run = honest(tmp_path, second=second)
    assert "the reply to call 2 was there for attempt 1 and was never used" in broken(run.folder)


def test_a_run_that_is_killed_behind_its_end_ends_again(tmp_path: Path) -> None:
    def second(run: Run) -> None:
        second_attempt(run)
        run.kill()
        run.start("c2", run.save("c2"))
        run.end()

    run = honest(tmp_path, second=second)
    assert not broken(run.folder)
    run.end()
    assert "the run ended 2 times" in broken(run.folder)


def test_a_reply_that_a_state_may_know(tmp_path: Path) -> None:
    """The reply came in while the state was written; the state names its call and may have used it."""
    run = Run(tmp_path)
    run.start()
    run.plan(0)
    run.answer(run.ask("a"))
    run.decide("a", "a")
    run.start("c1", run.save("c1"), under_way=[1])
    run.plan(1)
    run.end()
    assert not broken(run.folder)
    run.answer(run.ask("a"))
    assert "call 1 was answered before attempt 1 and paid for again as 2" in broken(run.folder)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"event": "asked", "call": 2}, "the calls of the ledger do not follow each other"),
        ({"event": "answered", "call": 1}, "the lines of the ledger do not follow each other"),
        ({"event": "asked", "call": 4}, "call 4 was answered and never asked"),
    ],
)
def test_a_ledger_that_lacks_a_line(tmp_path: Path, event: dict[str, Any], said: str) -> None:
    run = honest(tmp_path)
    edit(run.folder / "coevo" / "calls.jsonl", without(**event))
    assert said in broken(run.folder)
    assert "calls.jsonl does not begin as it did at kill 1" in broken(run.folder) or (
        event["call"] == 4
    )


def test_two_outcomes_of_a_call(tmp_path: Path) -> None:
    run = honest(tmp_path)
    path = run.folder / "coevo" / "calls.jsonl"
    edit(path, lambda lines: [*lines, *(one for one in lines if one["event"] == "answered")])
    assert "call 1 has 2 outcomes" in broken(run.folder)


def test_more_damage_than_kills(tmp_path: Path) -> None:
    for name, what in (("calls.jsonl", "the ledger"), ("events.jsonl", "the journal")):
        run = honest(tmp_path / name)
        with (run.folder / "coevo" / name).open("a") as file:
            file.write('{"cut\n')
        assert not broken(run.folder)
        with (run.folder / "coevo" / name).open("a") as file:
            file.write('{"cut\n')
        assert f"2 lines of {what} are damaged after 1 kills" in broken(run.folder)


def test_a_pause_is_no_kill(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.start()
    for request in "abcde":
        run.ask(request)
    run.kill("pause")
    run.end()
    found = checker.check(tmp_path, MAX_CALLS)
    assert (found["kills"], found["pauses"]) == (0, 1)
    assert "calls [1, 2, 3, 4, 5] have no outcome, and nothing was killed after them" in broken(
        tmp_path
    )


def test_a_call_that_is_under_way_when_the_run_ends(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.start()
    call = run.ask("a")
    run.end()
    assert not broken(tmp_path)
    run.answer(call)
    assert not broken(tmp_path)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"event": "run_begins"}, "not every attempt says once what runs"),
        ({"event": "state_saved"}, "attempt 1 has a checkpoint that no event speaks of"),
        ({"event": "training_ended"}, "the run ended 0 times"),
        ({"event": "text", "id": "c"}, "1 prompts are named whose text is nowhere"),
        ({"event": "reply", "call": 4}, "the journal does not tell of the reply to call 4"),
        ({"attempt": 0}, "the attempts do not follow each other in the journal"),
    ],
)
def test_a_journal_that_lacks_an_event(tmp_path: Path, event: dict[str, Any], said: str) -> None:
    run = honest(tmp_path)
    edit(run.folder / "coevo" / "events.jsonl", without(**event))
    assert said in broken(run.folder)


def test_events_that_could_not_be_written(tmp_path: Path) -> None:
    run = honest(tmp_path)
    run.journal.write([{"event": "gap", "lost": 3}])
    assert "3 events could not be written" in broken(run.folder)


def test_a_journal_that_was_rewritten(tmp_path: Path) -> None:
    run = honest(tmp_path)
    edit(run.folder / "coevo" / "events.jsonl", without(event="candidate_checked", what="a"))
    assert "events.jsonl does not begin as it did at kill 1" in broken(run.folder)


def test_a_candidate_of_no_request(tmp_path: Path) -> None:
    run = honest(tmp_path)
    run.decide("d", "d")
    assert "1 candidates were checked whose request is in no ledger" in broken(run.folder)


def test_a_file_that_was_left_behind(tmp_path: Path) -> None:
    run = honest(tmp_path)
    (run.folder / "coevo" / ".state.json.tmp").write_text("")
    assert "left behind: ['.state.json.tmp']" in broken(run.folder)


def test_what_is_not_as_without_kills(tmp_path: Path) -> None:
    undisturbed = _summary(tmp_path)

    def second(run: Run) -> None:
        run.reuse("b")
        run.plan(1)
        run.decide("b", "b")
        run.decide("something more", "b")
        run.answer(run.ask("c"))
        run.answer(run.ask("c"))
        run.plan(2, "otherwise")
        run.plan(3)
        run.end()

    run = honest(tmp_path / "run", second=second)
    edit(run.folder / "coevo" / "events.jsonl", without(event="candidate_checked", what="a"))
    said = broken(run.folder, undisturbed=undisturbed)
    assert "round 2 is not what it is without kills" in said
    assert "there are more rounds than without kills" in said
    assert "a request was paid for 2 times, 1 times without kills" in said
    assert "an event is lost" in said
    assert "an event is there that is not without kills" in said
