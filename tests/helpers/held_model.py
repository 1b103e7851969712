"""Simulate a reflection model that answers when a test says so, in any thread, without a clock."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias
from unittest.mock import patch

from prompt_coevo import threads
from prompt_coevo.candidates import background as asked
from prompt_coevo.reflection import function_model, paid_replies

Outcome: TypeAlias = Literal["answer", "fail", "late", "never"]

_SECONDS: Final = 60.0
"""The time after which a hanging test fails; no result depends on it."""


class ModelIsGone(Exception):
    """Raised by a failing call."""


@dataclass
class Job:
    """Calls of one batch, one after the other, on their own thread."""

    future: Future[Any] | None = None
    waiting: str | None = None
    """The prompt of the call that is held."""
    gate: threading.Event = field(default_factory=threading.Event)
    overdue: bool = False


class HeldModel:
    """Answer calls in the caller's thread with `reply` at once, and hold all others.

    `outcome` maps a prompt to an answer, an error, an answer after the call was abandoned, or none.
    """

    def __init__(self, text: Callable[[str], str], outcome: Callable[[str], Outcome]) -> None:
        self._text, self._outcome = text, outcome
        self._changed = threading.Condition()
        self._here = threading.local()
        self.jobs: list[Job] = []
        self.seen: Counter[str] = Counter()
        """The calls by prompt."""
        self.failed: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        """Calls that a kill left without an outcome."""
        self._dead: list[Job | None] = []

    def reply(self, prompt: str) -> str:
        job: Job | None = getattr(self._here, "job", None)
        if job in self._dead:
            raise ModelIsGone("the process is gone")
        with self._changed:
            self.seen[prompt] += 1
        if job is not None:
            with self._changed:
                job.waiting, gate = prompt, job.gate
                self._changed.notify_all()
            assert gate.wait(_SECONDS)
            if job in self._dead:
                raise ModelIsGone("the process is gone")
        if self._outcome(prompt) == "fail":
            with self._changed:
                self.failed[prompt] += 1
            raise ModelIsGone("out of order")
        return self._text(prompt)

    def in_thread(self, function: Callable[[], Any]) -> Future[Any]:
        """Act like `threads.in_thread`; return when the first call is held or all are done."""
        job = Job()

        def work() -> Any:
            self._here.job = job
            return function()

        job.future = threads.in_thread(work)
        job.future.add_done_callback(self._tell)
        self.jobs.append(job)
        self._settle(job)
        return job.future

    def answer_one(self, number: int) -> None:
        """Let one of the calls that may be answered continue, if there is one."""
        open_ones = [job for job in self._held() if self._of(job) in ("answer", "fail")]
        if open_ones:
            self._let_on(open_ones[number % len(open_ones)])

    def answer_all(self) -> None:
        """Let all calls that may be answered continue."""
        for job in self._held():
            while job.waiting is not None and self._of(job) in ("answer", "fail"):
                self._let_on(job)

    def answer_late(self) -> None:
        """Answer the calls whose time is up, except those that hang forever."""
        for job in self._held():
            while job.overdue and job.waiting is not None and self._of(job) != "never":
                self._let_on(job)

    def due(self, future: Future[Any]) -> Any:
        """Return the answer that is now needed. Raises TimeoutError for calls that are held longer."""
        job = next((job for job in self.jobs if job.future is future), None)
        while job is not None and job.waiting is not None:
            if self._of(job) not in ("answer", "fail"):
                job.overdue = True
                raise TimeoutError("there was no reply within 0 s")
            self._let_on(job)
        return future.result(_SECONDS)

    def kill(self) -> None:
        """Drop everything in flight; no caller ever receives it."""
        held = self._held()
        self.lost.update(job.waiting for job in held if job.waiting is not None)
        self._dead += held
        for job in held:
            while job.waiting is not None:
                self._let_on(job)
        self.jobs.clear()

    def _held(self) -> list[Job]:
        return [job for job in self.jobs if job.waiting is not None]

    def _of(self, job: Job) -> Outcome:
        assert job.waiting is not None
        return self._outcome(job.waiting)

    def _let_on(self, job: Job) -> None:
        with self._changed:
            gate, job.gate, job.waiting = job.gate, threading.Event(), None
        gate.set()
        self._settle(job)

    def _settle(self, job: Job) -> None:
        future = job.future
        assert future is not None
        with self._changed:
            assert self._changed.wait_for(
                lambda: job.waiting is not None or future.done(), _SECONDS
            )

    def _tell(self, _: object) -> None:
        with self._changed:
            self._changed.notify_all()


@contextmanager
def held_calls() -> Iterator[list[HeldModel]]:
    """Yield a list whose first model answers all background calls.

    Batches are under way together, the calls of one batch one after the other. Needs a `concurrency` above
    the number of batches that are held at once, or they would wait for each other.
    """
    current: list[HeldModel] = []

    def in_thread(function: Callable[[], Any]) -> Future[Any]:
        return current[0].in_thread(function)

    def answer_in_time(self: asked.Asked, _: object) -> Any:
        return current[0].due(self._reply)

    def one_by_one(function: Callable[[Any], Any], items: Sequence[Any], _: int) -> list[Any]:
        return [function(item) for item in items]

    with (
        patch.object(paid_replies, "map_in_threads", one_by_one),
        patch.object(function_model, "map_in_threads", one_by_one),
        patch.object(asked, "in_thread", in_thread),
        patch.object(asked.Asked, "answer_in_time", answer_in_time),
    ):
        yield current
