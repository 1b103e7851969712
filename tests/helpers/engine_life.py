"""Drive an engine in any order of what an adapter, a reflection model and a kill can do.

Two runs do the same things: one is killed now and then and resumes from its last checkpoint, repeating
what came after it; the other is undisturbed. The state machine draws the next action.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from helpers.held_model import HeldModel, Outcome, held_calls
from prompt_coevo import Coevolution, Settings
from prompt_coevo.engine.journal import Journal
from prompt_coevo.errors import HostError
from prompt_coevo.lines import Lines
from prompt_coevo.markers import PROJECT
from prompt_coevo.testing.scripted_world import (
    QUESTIONS,
    ScriptedPolicy,
    digest,
    helpful_reply,
    rolled_out,
    texts_of,
)
from prompt_coevo.testing.scripted_world import rule as judge
from prompt_coevo.types import Assignment, Rollout

GROUP: Final = 3
_P2O: Final = {
    "overspend": "never",
    "minibatch_size": 2,
    "dev_size": 2,
    "search_budget": 16,
    "calls_per_hard": 0.5,
    "min_hard": 4,
}
_STREAM: Final = {"reply_steps": 3, "calls_per_hard": 4.0}
_INSPO: Final = {
    "instruction": "Think.",
    "population_size": 3,
    "evolve_every": 2,
    "verify_size": 2,
    "candidates_per_call": 2,
    "failures_per_reflection": 1,
}
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "p2o": {"algorithms": "p2o", "p2o": _P2O},
    "stream": {"algorithms": "stream", "stream": _STREAM},
    "inspo": {"algorithms": "inspo", "inspo": _INSPO},
    "overlapped": {
        "algorithms": "inspo",
        "inspo": {**_INSPO, "evolve_every": 3, "reflection": "overlapped", "overlap_steps": 2},
    },
    "both": {"algorithms": "inspo,p2o", "inspo": _INSPO, "p2o": _P2O},
}

Action: TypeAlias = Callable[["Run"], Any]
"""An adapter's action; returns the engine's decision."""


class Run:
    """Hold one run: its folder, its model, and an engine that is replaced after a kill."""

    def __init__(self, folder: Path, settings: dict[str, Any], model: HeldModel) -> None:
        self.folder, self.model = folder, model
        self._settings = settings
        self.policy = ScriptedPolicy(judge)
        self.plans: dict[int, list[Assignment]] = {}
        """Planned rollouts that are not all observed yet, by round."""
        self.engine = self._new()

    def begin(self) -> None:
        with self.policy.open():
            self.engine.begin(self.policy)

    def kill(self) -> None:
        """Stop all writes to disk, also those in flight."""
        self.engine.context.ledger._lines = None
        self.engine.context.journal._lines = None
        self.model.kill()
        self.plans.clear()

    def load(self, state: str | None) -> None:
        """Start a new process; without a checkpoint it starts from scratch."""
        self.engine = self._new()
        if state is not None:
            self.engine.load_state_dict(json.loads(state))
        self.begin()

    def plan(self, ids: list[str]) -> Any:
        plan = self.engine.plan(ids, GROUP)
        sent = json.loads(json.dumps([one.to_json() for one in plan]))
        back = [Assignment.from_json(one) for one in sent]
        assert back == plan
        self.plans[plan[0].round] = back
        return [(one.round, one.question_id, *texts_of(one), one.distilled) for one in plan]

    def observe(self, number: int, part: list[int]) -> None:
        """Observe some rollouts of a round, in any order."""
        plan = self.plans[number]
        chosen = list(dict.fromkeys(place % len(plan) for place in part))
        self.engine.observe([self._rollout(plan[place]) for place in chosen])
        self.plans[number] = [one for place, one in enumerate(plan) if place not in chosen]
        if not self.plans[number]:
            del self.plans[number]

    def step(self) -> Any:
        with self._asked() as requests:
            self.engine.step_end(self.policy)
        return requests

    def epoch(self) -> Any:
        with self._asked() as requests:
            self.engine.epoch_end(self.policy)
        return requests

    def save(self) -> str:
        return json.dumps(self.engine.state_dict())

    def calls(self) -> list[dict[str, Any]]:
        """Return the calls in the ledger on disk."""
        lines = list(Lines(self.folder / "coevo" / "calls.jsonl").read())
        assert None not in lines
        return [line for line in lines if line is not None and line["event"] == "asked"]

    def events(self) -> list[dict[str, Any]]:
        journal = Journal(self.folder / "coevo")
        assert None not in journal.lines()
        return list(journal.read())

    def _new(self) -> Coevolution:
        reflection = {"function": self.model.reply, "concurrency": 100}
        reflection |= self._settings.get("reflection", {})
        settings = Settings(**{**self._settings, "reflection": reflection})
        return Coevolution.from_settings(settings, output_dir=self.folder)

    def _rollout(self, assignment: Assignment) -> Rollout:
        version = self.engine.policy_version
        return replace(rolled_out(assignment, judge), policy_version=version)

    @contextmanager
    def _asked(self) -> Iterator[list[Any]]:
        start, found = len(self.policy.asked), list[Any]()
        with self.policy.open():
            yield found
        found += self.policy.asked[start:]


class EngineLife(RuleBasedStateMachine):
    """Kill and resume `run`; `twin` does the same without kills while the two are comparable."""

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        memory = (
            "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        )  # nothing has to outlast a power cut
        self._folder = Path(tempfile.mkdtemp(prefix="life-", dir=memory))
        self._stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._models = self._stack.enter_context(held_calls())
        logger = logging.getLogger(PROJECT)
        self._stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)
        self.run: Any = None

    @initialize(
        kind=st.sampled_from(sorted(SETTINGS)),
        max_calls=st.sampled_from([None, None, None, 5]),
        outcomes=st.sampled_from(
            [
                ("answer",),
                ("answer",),
                ("answer",),
                ("answer", "answer", "fail"),
                ("answer", "answer", "fail", "late", "never"),
            ]
        ),
        salt=st.integers(0, 99),
    )
    def born(
        self, kind: str, max_calls: int | None, outcomes: tuple[Outcome, ...], salt: int
    ) -> None:
        settings = {**SETTINGS[kind], "seed": salt}
        if max_calls is not None:
            settings["reflection"] = {"max_calls": max_calls}
        self._max_calls = max_calls

        def outcome(prompt: str) -> Outcome:
            return outcomes[digest(salt, prompt) % len(outcomes)]

        def made(name: str) -> Run:
            model = HeldModel(helpful_reply, outcome)
            self._models[:] = [model]
            found = Run(self._folder / name, settings, model)
            found.begin()
            return found

        self.twin, self.run = made("twin"), made("run")
        self._comparable = max_calls is None and "never" not in outcomes
        self._done: list[tuple[Action, Any]] = []
        """All actions since the beginning, with the twin's decisions."""
        self._saved: tuple[int, str | None] = (0, None)
        """The number of actions done at the save, and the checkpoint."""
        for first in (0, 6):
            self.train(questions=6, first=first)

    # The adapter's actions

    @rule(first=st.integers(0, 23), count=st.integers(1, 6))
    def plan(self, first: int, count: int) -> None:
        ids = [list(QUESTIONS)[(first + 5 * place) % len(QUESTIONS)] for place in range(count)]
        self._do(lambda run: run.plan(ids))

    @precondition(lambda self: self.run and self.run.plans)
    @rule(number=st.integers(0, 9), part=st.lists(st.integers(0, 17), min_size=1, max_size=18))
    def observe(self, number: int, part: list[int]) -> None:
        chosen = sorted(self.run.plans)[number % len(self.run.plans)]
        self._do(lambda run: run.observe(chosen, part))

    @precondition(lambda self: self.run and self.run.plans)
    @rule()
    def observe_all(self) -> None:
        for chosen in sorted(self.run.plans):
            whole = list(range(len(self.run.plans[chosen])))
            self._do(lambda run, chosen=chosen, whole=whole: run.observe(chosen, whole))

    @rule(questions=st.integers(2, 6), first=st.integers(0, 23))
    def train(self, questions: int, first: int) -> None:
        """Do what most steps do: plan, observe, step."""
        self.plan(first, questions)
        self.observe_all()
        self.step()

    @rule()
    def step(self) -> None:
        self._do(Run.step)

    @rule()
    def epoch(self) -> None:
        self._do(Run.epoch)

    @rule(finish=st.booleans())
    def save(self, finish: bool) -> None:
        """Save, usually between two steps; an asynchronous trainer may have open rounds."""
        if finish and self.run.plans:
            self.observe_all()
        self._saved = (len(self._done), self.run.save())
        self._open_at_save = bool(self.run.plans)

    @precondition(lambda self: self.run and self.run.plans)
    @rule()
    def observe_what_was_not_planned(self) -> None:
        number, plan = next(iter(self.run.plans.items()))
        wrong = Assignment(plan[0].question_id, number + 1000)
        self._refused(wrong)

    # The reflection model's actions

    @rule(number=st.integers(0, 9))
    def answer(self, number: int) -> None:
        self._models[:] = [self.run.model]
        self.run.model.answer_one(number)

    # The cluster's actions

    @rule(stops=st.lists(st.integers(0, 12), max_size=2), answers=st.integers(0, 3))
    def save_and_kill(self, stops: list[int], answers: int) -> None:
        """An answer from a moment ago is in the checkpoint or in the ledger."""
        for _ in range(answers):
            self.answer(0)
        self.save(finish=True)
        for _ in range(answers):
            self.answer(0)
        self.kill(stops)

    @rule(
        first=st.integers(0, 23),
        trains=st.integers(0, 2),
        epoch=st.booleans(),
        answers=st.integers(0, 4),
        stops=st.lists(st.integers(0, 12), max_size=1),
    )
    def mishap(self, first: int, trains: int, epoch: bool, answers: int, stops: list[int]) -> None:
        """Kill the run some time after a checkpoint."""
        self.save(finish=True)
        for number in range(trains):
            self.train(questions=6, first=first + number)
        for _ in range(answers):
            self.answer(0)
        if epoch:
            self.epoch()
        self.kill(stops)

    @rule(stops=st.lists(st.integers(0, 12), max_size=2))
    def kill(self, stops: list[int]) -> None:
        """Kill the run and resume from the checkpoint; it may be killed again on the way."""
        start, state = self._saved
        before = [one for plan in self.run.plans.values() for one in plan]
        if state is not None and self._open_at_save:
            self._comparable = False  # open rounds are lost
        for stop in [*stops, None]:
            self.run.kill()
            self._models[:] = [self.run.model]
            self.run.load(state)
            for done in self._done[start:][:stop]:
                self._redo(*done)
        if before and state is not None and before[0].round not in self.run.plans:
            self._refused(before[0])

    # Invariants

    @invariant()
    def every_call_is_in_the_ledger(self) -> None:
        if self.run is None:
            return
        calls = self.run.calls()
        assert len(calls) == self.run.model.seen.total()
        assert len({call["call"] for call in calls}) == len(calls)
        if self._max_calls is not None:
            assert len(calls) <= self._max_calls

    @invariant()
    def no_answer_is_asked_for_again(self) -> None:
        if self.run is None or not self._comparable:
            return
        own, twin = self.run.model, self.twin.model
        allowed = twin.seen + own.lost + own.failed
        assert not own.seen - allowed, own.seen - allowed

    def teardown(self) -> None:
        try:
            if self.run is not None:
                self._check_journal()
                self.kill([])
                self._check_journal()
        finally:
            for run in (self.run, self.twin) if self.run is not None else ():
                run.kill()
            self._stack.close()

    # Inside

    def _do(self, action: Action) -> None:
        self._models[:] = [self.twin.model]
        expected = action(self.twin)
        self.twin.model.answer_late()
        self.twin.model.answer_all()  # so that it has always seen all that the other may have
        self._done.append((action, expected))
        self._redo(action, expected)

    def _redo(self, action: Action, expected: Any) -> None:
        self._models[:] = [self.run.model]
        try:
            found = action(self.run)
        except (KeyError, ZeroDivisionError):
            if self._comparable:
                raise
            return  # a round that this run has lost
        self.run.model.answer_late()
        assert not self._comparable or found == expected

    def _refused(self, assignment: Assignment) -> None:
        try:
            self.run.engine.observe([rolled_out(assignment, judge)])
        except HostError:
            return
        raise AssertionError(f"{assignment} was taken in")

    def _check_journal(self) -> None:
        events = self.run.events()
        replies = Counter(event["request"] for event in events if event["event"] == "reply")
        for event in events:
            assert event["event"] not in ("plugin_error", "gap"), event
            if event["event"] == "candidate_checked":
                assert replies[event["request"]] > 0, event
