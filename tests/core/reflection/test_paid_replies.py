"""Check budgets and threads where every call to the reflection model passes."""

from __future__ import annotations

import itertools
import json
import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.searches import SMALL_SEARCH
from prompt_coevo.engine.journal import Journal
from prompt_coevo.proposals import Reply, Usage
from prompt_coevo.reflection import paid_replies
from prompt_coevo.reflection.function_model import FunctionModel
from prompt_coevo.reflection.ledger import Ledger
from prompt_coevo.reflection.paid_replies import PaidReplies
from prompt_coevo.reflection.spending import Spending
from prompt_coevo.threads import in_thread
from prompt_coevo.types import Rollout


class Priced:
    """Answers every prompt, at a price."""

    def __init__(self, pause: float = 0.0) -> None:
        self.asked: list[str] = []
        self._pause = pause

    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        self.asked += prompts
        time.sleep(self._pause)
        return [Reply(f"re: {prompt}", "stop", None, Usage(30, 20, 0.5)) for prompt in prompts]


class Account:
    def __init__(
        self, model: Any, path: Path | None = None, at_once: int = 1, **limits: float
    ) -> None:
        self.notes: list[tuple[str, dict[str, Any]]] = []
        self.ledger = Ledger(path)
        self.paid = PaidReplies(
            model,
            {"model": "m"},
            self.ledger,
            spending=Spending(limits),
            at_once=at_once,
            note=lambda event, **fields: self.notes.append((event, fields)),
        )

    @property
    def marks(self) -> list[tuple[str, dict[str, Any]]]:
        return [note for note in self.notes if note[0].startswith("budget")]


def texts(replies: list[Reply]) -> list[str | None]:
    return [reply.text for reply in replies]


def test_the_first_prompts_that_fit_are_asked() -> None:
    model = Priced()
    ledger = Account(model, max_calls=3)
    ledger.paid.complete(["a"])
    replies = ledger.paid.complete(["b", "c", "d", "e"])
    assert texts(replies) == ["re: b", "re: c", None, None]
    assert {reply.error for reply in replies[2:]} == {
        "the budget reflection.max_calls = 3 is spent"
    }
    assert model.asked == ["a", "b", "c"]
    assert ledger.paid.totals["calls"] == 3
    assert ledger.paid.totals["errors"] == 0
    assert ledger.marks == [
        ("budget_warning", {"name": "reflection.max_calls", "spent": 3, "limit": 3}),
        ("budget_spent", {"name": "reflection.max_calls", "spent": 3, "limit": 3}),
    ]


@pytest.mark.parametrize(
    ("limits", "batches"),
    [({"max_total_tokens": 120}, 3), ({"max_usd": 1.0}, 2)],
)
def test_a_cap_that_is_reached_starts_no_further_call(
    limits: dict[str, float], batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_second_each = SimpleNamespace(monotonic=itertools.count().__next__)
    monkeypatch.setattr(paid_replies, "time", one_second_each)
    model = Priced()
    ledger = Account(model, **limits)
    replies = [ledger.paid.complete([f"{n}"])[0] for n in range(5)]
    assert len(model.asked) == batches
    assert [reply.text is None for reply in replies] == [n >= batches for n in range(5)]
    assert [event for event, _ in ledger.notes].count("budget_spent") == 1


def test_warnings_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    ledger = Account(Priced(), max_calls=10)
    with caplog.at_level(logging.WARNING, "prompt_coevo"):
        for n in range(20):
            ledger.paid.complete([f"{n}"])
    assert [record.getMessage() for record in caplog.records] == [
        "8 of the budget reflection.max_calls = 10 is used",
        "the budget reflection.max_calls = 10 is spent: evolution stops, training continues",
    ]


def test_replies_of_an_earlier_attempt_are_given_even_under_a_spent_budget(tmp_path: Path) -> None:
    first = Account(Priced(), tmp_path / "calls.jsonl", max_calls=2)
    first.ledger.open("run")
    first.paid.complete(["a", "b"])
    model = Priced()
    second = Account(model, tmp_path / "calls.jsonl", max_calls=2)
    second.ledger.open("run", continues="run")
    replies = second.paid.complete(["a", "c", "b"])
    assert texts(replies) == ["re: a", None, "re: b"]
    assert model.asked == []
    assert second.paid.totals["calls"] == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_model_that_ends_the_thread_leaves_no_call_under_way(error: type[BaseException]) -> None:
    class Broken:
        def complete(self, prompts: Sequence[str]) -> list[Reply]:
            raise error

    ledger = Account(Broken(), max_calls=2)
    with pytest.raises(error):
        ledger.paid.complete(["a"])
    assert ledger.paid.totals["calls"] == ledger.paid.totals["errors"] == 1
    assert ledger.paid._reserved == {}


@pytest.mark.parametrize("replies", [RuntimeError("boom"), [], [Reply("a"), Reply("b")]])
def test_a_strangers_model_that_breaks_its_promise_has_answered_with_an_error(replies: Any) -> None:
    class Broken:
        def complete(self, prompts: Sequence[str]) -> list[Reply]:
            if isinstance(replies, Exception):
                raise replies
            return list(replies)

    (reply,) = Account(Broken()).paid.complete(["a"])
    assert reply.text is None
    assert reply.error in {
        "RuntimeError: boom",
        "the model gave 0 replies to 1 prompts",
        "the model gave 2 replies to 1 prompts",
    }


class Careful(Priced):
    """Says what a call can cost at most."""

    def most(self, prompt: str) -> Usage:
        return Usage(30, 30, 1.0)


class Batching(Careful):
    batched = True


@pytest.mark.parametrize("model", [Careful(), Batching()])
@pytest.mark.parametrize("at_once", [1, 4])
def test_dollars_are_never_exceeded_by_a_model_that_says_what_a_call_can_cost(
    model: Careful, at_once: int
) -> None:
    """Calls cost $0.5 and could cost $1; of $1.75, two calls leave too little for a third."""
    account = Account(model, at_once=at_once, max_usd=1.75)
    replies = account.paid.complete(["a"]) + account.paid.complete(["b"])
    replies += account.paid.complete(["c", "d"])
    assert account.paid.totals["usd"] <= 1.75
    assert sum(reply.text is not None for reply in replies) == 2
    assert replies[-1].error == (
        "0.75 is left of the budget reflection.max_usd = 1.75, and one more call may cost 1"
    )


def test_a_batch_that_does_not_fit_at_once_does_not_wait_for_itself() -> None:
    account = Account(Batching(), max_usd=2.5)
    replies = account.paid.complete(["a", "b", "c", "d"])
    assert [reply.text is not None for reply in replies] == [True, True, False, False]
    assert account.paid._reserved == {}


def test_a_reply_that_is_no_text_is_an_error() -> None:
    class Odd:
        def complete(self, prompts: Sequence[str]) -> list[Reply]:
            return [Reply(7) for _ in prompts]  # type: ignore[arg-type]

    (reply,) = Account(Odd()).paid.complete(["a"])
    assert reply.text is None
    assert reply.error is not None


def test_two_threads_never_exceed_the_calls_together() -> None:
    model = Priced(pause=0.02)
    ledger = Account(model, max_calls=25)
    asked = [
        in_thread(lambda n=n: [ledger.paid.complete([f"{n} {i}"] * 2) for i in range(5)])
        for n in range(4)
    ]
    replies = [reply for future in asked for batch in future.result(300) for reply in batch]
    assert len(replies) == 40
    assert sum(reply.text is not None for reply in replies) == len(model.asked) == 25
    assert ledger.paid.totals["calls"] == 25
    assert ledger.paid.totals["usd"] == 12.5


def test_a_call_does_not_wait_for_another_threads_call() -> None:
    release = threading.Event()

    class Waiting(Priced):
        def complete(self, prompts: Sequence[str]) -> list[Reply]:
            if prompts == ["slow"]:
                release.wait(300)
            return super().complete(prompts)

    ledger = Account(Waiting())
    slow = in_thread(lambda: ledger.paid.complete(["slow"]))
    assert texts(ledger.paid.complete(["fast"])) == ["re: fast"]
    assert not slow.done()
    release.set()
    assert texts(slow.result(300)) == ["re: slow"]


def test_a_function_is_asked_by_one_thread_at_a_time() -> None:
    running: list[int] = []
    at_once: list[int] = []

    def function(prompt: str) -> str:
        running.append(1)
        at_once.append(len(running))
        time.sleep(0.01)
        running.pop()
        return prompt

    model = FunctionModel(function)
    for future in [in_thread(lambda: model.complete(["a", "b", "c"])) for _ in range(3)]:
        future.result(300)
    assert set(at_once) == {1}


def test_lines_of_several_threads_stay_whole(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    text = "x" * 20_000
    writers = [
        in_thread(
            lambda n=n: [journal.write([{"event": f"{n}", "text": text}] * 3) for _ in range(10)]
        )
        for n in range(4)
    ]
    for writer in writers:
        writer.result(300)
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    assert len(lines) == 120
    assert all(json.loads(line)["text"] == text for line in lines)


P2O = {**SMALL_SEARCH, "search_budget": 60}


def test_evolution_stops_and_training_goes_on(
    make_engine: Any, keyed_policy: Any, tmp_path: Path
) -> None:
    calls: list[str] = []

    def reply(prompt: str) -> str:
        calls.append(prompt)
        return f"<template>k{len(calls)}</template>"

    def start() -> Any:
        return make_engine(
            output_dir=tmp_path, p2o=P2O, reflection={"function": reply, "max_calls": 3}
        )

    def epoch(engine: Any) -> None:
        policy = keyed_policy(8)
        plan = engine.plan(sorted(policy.questions), 2)
        engine.observe([Rollout(assignment, "", 0.0) for assignment in plan])
        engine.step_end(policy)
        engine.epoch_end(policy)

    engine = start()
    engine.begin(keyed_policy(8))
    epoch(engine)
    epoch(engine)
    assert len(calls) == 3
    assert engine.metrics()["coevo/reflection_calls"] == 3
    assert engine.metrics()["coevo/reflection_seconds"] > 0
    resumed = start()
    resumed.load_state_dict(engine.state_dict())
    resumed.begin(keyed_policy(8))
    epoch(resumed)
    assert len(calls) == 3
    lines = (tmp_path / "coevo" / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    assert [e["spent"] for e in events if e["event"] == "budget_spent"] == [3]
    refused = [e["error"] for e in events if e["event"] == "reflection_error"]
    assert set(refused) == {"the budget reflection.max_calls = 3 is spent"}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"text": "yes"}, "the model gave dict, not a Reply"),
        (Reply(["a", "part"]), "the model gave list where a reply has a text"),  # type: ignore[arg-type]
        (Reply(None, error=7), "the model gave int where a reply has a text"),  # type: ignore[arg-type]
    ],
)
def test_an_answer_that_is_no_reply_is_an_error(answer: Any, error: str) -> None:
    ledger = Ledger(None)
    model = SimpleNamespace(complete=lambda prompts: [answer])
    assert PaidReplies(model, {}, ledger).complete(["why?"])[0].error == error
    assert ledger.totals["errors"] == 1


def test_what_a_reply_says_beside_its_text_is_passed_over_if_it_is_nonsense() -> None:
    odd = Reply("yes", {"stop": 1}, retry_after="soon")  # type: ignore[arg-type]
    model = SimpleNamespace(complete=lambda prompts: [odd])
    assert PaidReplies(model, {}, Ledger(None)).complete(["why?"]) == [Reply("yes")]


def test_a_reply_that_cannot_even_be_looked_at_is_an_error() -> None:
    class Odd:
        usd = "much"

        def __repr__(self) -> str:
            raise RuntimeError("not today")

    model = SimpleNamespace(complete=lambda prompts: [Reply("yes", usage=Odd())])  # type: ignore[arg-type]
    [reply] = PaidReplies(model, {}, Ledger(None)).complete(["why?"])
    assert reply == Reply(None, error="RuntimeError: not today")


# Several threads that ask at once


class Held:
    """A model whose calls may cost 60 tokens and cost 2; the first one blocks until released."""

    def __init__(self) -> None:
        self.out, self.go_on = threading.Semaphore(0), threading.Event()

    def most(self, prompt: str) -> Usage:
        return Usage(30, 30)

    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        self.out.release()
        if prompts == ["first"]:
            assert self.go_on.wait(300)
        return [Reply("yes", usage=Usage(1, 1)) for _ in prompts]


def test_a_call_that_ends_makes_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Held()
    paid = PaidReplies(
        model, {"model": "m"}, Ledger(None), spending=Spending({"max_total_tokens": 100})
    )
    waits = threading.Event()
    wait = paid._room.wait

    def seen(*args: Any) -> Any:
        waits.set()
        return wait(*args)

    monkeypatch.setattr(paid._room, "wait", seen)
    replies: list[Reply] = []

    def ask(prompt: str) -> threading.Thread:
        work = threading.Thread(target=lambda: replies.extend(paid.complete([prompt])), daemon=True)
        work.start()
        return work

    early = ask("first")
    assert model.out.acquire(timeout=300)
    late = ask("second")
    assert waits.wait(20)
    assert not model.out.acquire(blocking=False)  # 60 of 100 are taken
    model.go_on.set()
    early.join(300)
    late.join(20)
    assert [reply.text for reply in replies] == ["yes", "yes"]


def test_threads_never_ask_for_more_than_the_budget_together() -> None:
    """Checking the budget and recording the call are atomic across threads."""
    model, ledger = Priced(), Ledger(None)
    asked = ledger.asked
    looked = threading.Barrier(2)

    def slowly(*args: Any) -> Any:
        with suppress(threading.BrokenBarrierError):
            looked.wait(0.5)  # for another one that saw the same budget
        return asked(*args)

    ledger.asked = slowly  # type: ignore[method-assign]
    paid = PaidReplies(model, {}, ledger, spending=Spending({"max_calls": 1}))
    threads = [threading.Thread(target=paid.complete, args=(["q"],)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert ledger.totals["calls"] == len(model.asked) == 1
