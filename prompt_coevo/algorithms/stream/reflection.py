"""Decide what to ask the reflection model, how often, and when to use its replies."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypedDict

from prompt_coevo.algorithms.stream import LISTED
from prompt_coevo.algorithms.stream.evidence import Evidence
from prompt_coevo.algorithms.stream.failures import Failures
from prompt_coevo.algorithms.stream.giveaways import Giveaways
from prompt_coevo.algorithms.stream.library import Dropped, Library, Template
from prompt_coevo.algorithms.stream.outage import Outage
from prompt_coevo.algorithms.stream.settings import StreamSettings
from prompt_coevo.candidates.background import Answer, Asked, AskedState
from prompt_coevo.candidates.leaks import leak_guard
from prompt_coevo.candidates.source import CandidateSource, propose
from prompt_coevo.context import Context
from prompt_coevo.errors import CoevoError
from prompt_coevo.markers import PROJECT
from prompt_coevo.policy import Policy
from prompt_coevo.proposals import ProposalRequest, Trajectory, Usage
from prompt_coevo.rng import counter_rng
from prompt_coevo.types import EMPTY_TEMPLATE, Candidate

logger = logging.getLogger(PROJECT)

_ATTEMPTS: Final = 4
"""Calls per epoch that may show the same question."""
_CONSIDERED: Final = 64
_ENOUGH: Final = 4
"""Rollouts needed to say something about a template."""


class CallsState(TypedDict):
    """Saved calls, with the ids of the questions shown in each."""

    asked: AskedState
    shown: list[list[str]]
    this_epoch: bool


class ReflectionState(TypedDict):
    """The saved `Reflection`."""

    under_way: list[CallsState]
    attempts: dict[str, int]
    of_this_epoch: int
    outage: dict[str, int]


@dataclass
class _Calls:
    """Calls made together, and the questions shown in each."""

    asked: Asked
    shown: list[tuple[int, ...]]
    this_epoch: bool = True
    """True if they count against this epoch's limit."""


class Reflection:
    """Ask about hard questions that no template is expected to solve, showing rollouts that failed in
    training.

    A few calls start in the background at every step, and their replies are used `reply_steps` updates
    later. An epoch has at most `calls_per_hard` calls for every hard question. Failed calls without a cost
    do not count.
    """

    def __init__(
        self,
        context: Context,
        ids: Sequence[str],
        library: Library,
        evidence: Evidence,
        failures: Failures,
        giveaways: Giveaways,
    ) -> None:
        self._context = context
        self._settings = context.settings.section(StreamSettings)
        self._ids = ids
        self._library, self._evidence, self._failures = library, evidence, failures
        self._giveaways = giveaways
        self._under_way: list[_Calls] = []
        self._hung: list[Asked] = []
        self._outage = Outage()
        self._attempts: Counter[int] = Counter()
        self._of_this_epoch = 0

    def new_epoch(self) -> None:
        """Begin an epoch: reset the limits and allow calls about questions that were given up."""
        self._attempts.clear()
        self._of_this_epoch = 0
        self._outage.end()
        for calls in self._under_way:
            calls.this_epoch = False

    def try_again(self) -> None:
        """End an outage early."""
        self._outage.end()

    def replies(self, step: int, policy: Policy) -> list[tuple[Candidate, tuple[int, ...]]]:
        """Return the candidates due at this step, with the questions that their proposer was shown."""
        due = [calls for calls in self._under_way if calls.asked.use_at <= step]
        self._under_way = [calls for calls in self._under_way if calls.asked.use_at > step]
        return [found for calls in due for found in self._judged(calls, step, policy)]

    def ask(self, step: int, hard: Collection[int], policy: Policy, group_size: int) -> None:
        """Make the calls of this step."""
        self._hung = [asked for asked in self._hung if not asked.done]
        full = len(self._library.in_state("trial")) >= self._settings.library_size
        if self._hung or full or self._outage.lasts(step):
            return
        left = self._settings.calls_for(len(hard)) - self._of_this_epoch
        members = max(1, group_size - self._settings.bare_members)
        targets = self._targets(step, hard, members)
        rng = counter_rng(self._context.settings.seed, "stream/ask", step)
        requests: list[ProposalRequest] = []
        shown: list[tuple[int, ...]] = []
        while targets and len(requests) < min(self._settings.calls_per_step, left):
            fewest = min(self._attempts[question] for question in targets)
            seeds = [question for question in targets if self._attempts[question] == fewest]
            seed = seeds[int(rng.integers(len(seeds)))]
            parent = self._parent(seed, float(rng.random()))
            chosen = self._with_its_like(seed, parent, targets)
            self._attempts.update(chosen)
            failed = [self._failures.of(question)[parent.id] for question in chosen]
            questions = [policy.question(self._ids[question]) for question in chosen]
            trajectories = tuple(
                Trajectory.of(question, *failure)
                for question, failure in zip(questions, failed, strict=True)
            )
            requests.append(
                ProposalRequest(
                    "template",
                    (parent,),
                    trajectories,
                    self._settings.proposer,
                    history=self._tried(chosen, step),
                )
            )
            shown.append(chosen)
            targets = [question for question in targets if question not in chosen]
        if requests:
            self._of_this_epoch += len(requests)
            self._under_way.append(_Calls(self._asked(requests, step), shown))

    def to_json(self) -> ReflectionState:
        return {
            "under_way": [
                {
                    "asked": calls.asked.to_json(),
                    "shown": [[self._ids[one] for one in shown] for shown in calls.shown],
                    "this_epoch": calls.this_epoch,
                }
                for calls in self._under_way
            ],
            "attempts": {self._ids[question]: tries for question, tries in self._attempts.items()},
            "of_this_epoch": self._of_this_epoch,
            "outage": self._outage.to_json(),
        }

    def load(self, state: ReflectionState, numbers: Mapping[str, int]) -> None:
        ask = partial(propose, self._context)
        for line in state["under_way"]:
            shown = [
                tuple(numbers[name] for name in names if name in numbers) for names in line["shown"]
            ]
            asked = Asked.from_json(line["asked"], ask, in_background=self._in_background)
            self._under_way.append(_Calls(asked, shown, line["this_epoch"]))
        attempts = state["attempts"].items()
        self._attempts = Counter({numbers[q]: tries for q, tries in attempts if q in numbers})
        self._of_this_epoch = state["of_this_epoch"]
        self._outage.load(state["outage"])

    @property
    def under_way(self) -> set[int]:
        """Questions in calls whose replies are not used yet."""
        return {
            question for calls in self._under_way for shown in calls.shown for question in shown
        }

    # Inside

    def _targets(self, step: int, hard: Collection[int], members: int) -> list[int]:
        """Choose the hard questions to ask about.

        Their failures are known, no template is expected to solve them, and an epoch has the rollouts
        (`members` of each group) to try more templates than are on trial for them.
        """
        busy = self.under_way
        open_ones = [
            question
            for question in self._failures
            if question in hard
            and question not in busy
            and self._attempts[question] < _ATTEMPTS
            and self._parents(question)
        ]
        if len(open_ones) > _CONSIDERED:  # different ones at every step
            spread = {q: (q * 2_654_435_761 + step * 40_503) % 65_536 for q in open_ones}
            open_ones.sort(key=lambda question: (self._attempts[question], spread[question]))
            del open_ones[_CONSIDERED:]
        in_use = [one for one in self._library.in_state("in use") if one.slot]
        waiting = [one.slot for one in self._library.in_state("trial")]
        return sorted(
            question
            for question in open_ones
            if not self._evidence.is_solvable(
                question, self._evidence.belief(question, self._slots(in_use, question), step)
            )
            and self._has_room(question, hard, waiting, members)
        )

    def _slots(self, templates: Sequence[Template], question: int) -> list[int]:
        """Return the slots of the templates that may be used for the question."""
        return [one.slot for one in self._giveaways.fit(templates, self._ids[question])]

    def _has_room(
        self, question: int, hard: Collection[int], waiting: Sequence[int], members: int
    ) -> bool:
        """Return True if an epoch has enough rollouts on such questions for another template on trial."""
        on_trial = int((self._evidence.hope(question)[waiting] > 0).sum())
        alike = sum(one in hard for one in self._evidence.near(question).numbers.tolist())
        return on_trial * _ENOUGH < max(_ENOUGH, alike * members)

    def _tried(self, chosen: tuple[int, ...], step: int) -> tuple[tuple[str, float], ...]:
        """Return templates tried enough on such questions and their success: best first, then latest."""
        templates = [one for one in self._library if one.slot]
        solved, tried = self._evidence.outcomes_near(
            chosen[0], [one.slot for one in templates], step
        )
        found = [
            (template.candidate.text, float(succeeded / of))
            for template, succeeded, of in zip(templates, solved, tried, strict=True)
            if of >= _ENOUGH
        ]
        around = {*chosen, *self._evidence.around(chosen)}
        found += [
            (one.text, 0.0)
            for one in self._library.dropped.values()
            if not around.isdisjoint(one.shown)
        ]
        found.reverse()
        return tuple(sorted(found, key=lambda one: -one[1])[:LISTED])

    def _parents(self, question: int) -> list[Template]:
        """Return the templates in use under which the question failed: those that could be improved."""
        known = [self._library.get(name) for name in self._failures.of(question)]
        return [one for one in known if one is not None and one.state == "in use"]

    def _parent(self, seed: int, drawn: float) -> Candidate:
        """Choose the parent: in half of the calls a template that works elsewhere, if the question failed
        under one; otherwise the empty one."""
        parents = self._parents(seed)
        others = [one for one in parents if one.slot]
        if others and (drawn < 0.5 or len(others) == len(parents)):
            return max(others, key=self._worth).candidate
        return EMPTY_TEMPLATE

    def _worth(self, template: Template) -> tuple[float, int]:
        return self._evidence.solved_anywhere(template.slot), -template.slot

    def _with_its_like(
        self, seed: int, parent: Candidate, targets: Sequence[int]
    ) -> tuple[int, ...]:
        """Return the question and those most like it that failed under the same template. Without any like
        it, add whichever failed under that template."""
        alike = self._evidence.near(seed)
        likeness = dict(zip(alike.numbers.tolist(), alike.weights.tolist(), strict=True))
        others = [
            question
            for question in targets
            if question != seed and parent.id in self._failures.of(question)
        ]
        if len(likeness) > 1:
            others = [one for one in others if one in likeness]
        others.sort(key=lambda question: (-likeness.get(question, 0.0), question))
        return (seed, *others[: self._settings.failures_per_call - 1])

    @property
    def _in_background(self) -> bool:
        """False if the policy reflects itself: it would generate during training and share random state."""
        return self._context.settings.reflection.backend_in_use != "self"

    def _asked(self, requests: Sequence[ProposalRequest], step: int) -> Asked:
        use_at, ask = step + self._settings.reply_steps, partial(propose, self._context)
        return Asked(requests, use_at, ask, in_background=self._in_background)

    def _judged(
        self, calls: _Calls, step: int, policy: Policy
    ) -> list[tuple[Candidate, tuple[int, ...]]]:
        """Return the candidates that passed the gates. A failure is logged and journaled, nothing more."""
        asked = calls.asked
        questions = {question for shown in calls.shown for question in shown}
        guard = leak_guard(
            [policy.question(self._ids[question]) for question in sorted(questions)],
            self._context.settings.gates,
        )
        try:
            proposals = asked.answer_in_time(self._context.settings.reflection)
            self._count_lost(calls, proposals, step)
            source = CandidateSource(self._context, guard)
            known = [self._known(shown) for shown in calls.shown]
            tried = [
                set(texts) for texts in known
            ]  # `judge` adds to `known`; its own check may be off
            answers = source.judge(asked.requests, proposals, known)
        except CoevoError:
            raise
        except Exception as error:
            if not asked.done:
                self._hung.append(asked)  # make no calls until it returns
            logger.warning(
                "no new templates from %d reflection calls: %s", len(asked.requests), error
            )
            self._context.note("reflection_skipped", calls=len(asked.requests), reason=str(error))
            return []
        return [
            (candidate, shown)
            for shown, texts, candidates in zip(calls.shown, tried, answers, strict=True)
            for candidate in candidates
            if candidate.text not in texts
        ]

    def _known(self, shown: tuple[int, ...]) -> set[str]:
        """Return the texts tried before, or on trial, on questions like these."""
        around = {*shown, *self._evidence.around(shown)}
        known = [*self._library.dropped.values()]
        known += [Dropped(one.candidate.text, one.shown) for one in self._library]
        return {"", *(one.text for one in known if not around.isdisjoint(one.shown))}

    def _count_lost(self, calls: _Calls, answer: Answer, step: int) -> None:
        """Take lost calls off the epoch's count. Questions may only be asked about again if the whole batch
        was lost: one that fails alone may be the cause."""
        lost = _lost(answer, len(calls.shown))
        if calls.this_epoch:
            self._of_this_epoch -= lost
        if lost < len(calls.shown):
            self._outage.end()
            return
        self._outage.lost(calls.asked.use_at - self._settings.reply_steps, step)
        if calls.this_epoch:
            for shown in calls.shown:
                self._attempts.subtract(shown)


def _lost(answer: Answer, asked: int) -> int:
    """Count the calls that failed without a cost; all of them if nobody answered."""
    if answer is None:
        return asked
    lost = sum(proposal.failed and proposal.reply.usage == Usage() for proposal in answer)
    return min(lost, asked)  # a proposer may return more proposals than requested
