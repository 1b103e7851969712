"""Search for templates without ever stopping training: the default method.

Ours, not a paper's. Every training group of a hard question doubles as an evaluation: one rollout runs
without a template, the others under templates of a library, drawn by what is known about them on this
question and on questions like it. After every weight update a few calls to the reflection model start in
the background, about questions that no template is expected to solve. Rollouts of the next groups try the
templates it writes. A template comes into use once it succeeds on a question that its proposer did not
see; where right answers of hard questions repeat, on two that have different ones. A question stays hard
until it is solved without a template.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Final

from prompt_coevo import hookspecs, registry
from prompt_coevo.algorithms.hard_questions.hard_set import HardSet, forget_gone
from prompt_coevo.algorithms.hard_questions.results import Results
from prompt_coevo.algorithms.hard_questions.round_numbers import round_numbers
from prompt_coevo.algorithms.hard_questions.verdict import Verdict
from prompt_coevo.algorithms.stream import no_room
from prompt_coevo.algorithms.stream.comparison import Comparison
from prompt_coevo.algorithms.stream.failures import Failures
from prompt_coevo.algorithms.stream.giveaways import Giveaways
from prompt_coevo.algorithms.stream.library import Library, Template
from prompt_coevo.algorithms.stream.likeness import LikenessFactory
from prompt_coevo.algorithms.stream.members import draw_members
from prompt_coevo.algorithms.stream.question_numbers import Numbered
from prompt_coevo.algorithms.stream.reflection import Reflection
from prompt_coevo.algorithms.stream.settings import StreamSettings
from prompt_coevo.algorithms.stream.state import StreamState
from prompt_coevo.algorithms.stream.trial import concerns
from prompt_coevo.algorithms.stream.trials import Trials
from prompt_coevo.algorithms.stream.upcoming import Ahead
from prompt_coevo.context import Context
from prompt_coevo.errors import HostError, StateError
from prompt_coevo.markers import PROJECT, hookimpl
from prompt_coevo.policy import Policy, ground_truth
from prompt_coevo.rng import counter_rng
from prompt_coevo.types import EMPTY_TEMPLATE, Group, MemberPlan, Rollout, Summary

logger = logging.getLogger(PROJECT)

_WORTH_A_GUESS = 0.3
_TRUTHS: Final = 16_384
"""Cached right answers: each step asks for those of many questions, and reading a row takes time."""


class Stream:
    """The plugin, registered as `stream`."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settings = context.settings.section(StreamSettings)
        # Fail before training if the proposer is missing.
        context.proposer(self._settings.proposer)
        make_likeness: LikenessFactory = registry.load(
            "likenesses", self._settings.likeness, "stream.likeness"
        )
        self._questions = Numbered(context, make_likeness)
        self._hard = HardSet.of(self._settings, context)
        self._library = Library(self._settings.library_size)
        self._observed = self._warned = False
        self._failures = Failures()
        self._results = Results(self._settings)
        self._ids: Sequence[str] = ()
        self._numbers: Mapping[str, int] = {}
        self._measured: set[int] = set()
        self._epoch = self._groups_of_this_epoch = 0
        self._instruction: str | None = None
        self._totals = {
            "train_rollouts": 0,
            "templates_joined": 0,
            "templates_dropped": 0,
        }
        self._last_round: dict[str, float] = {}
        self._saved: StreamState | None = None

    @hookimpl
    def coevo_train_begin(self, policy: Policy) -> None:
        if self._ids and self._saved is None:  # a second training: keep what is known
            self._saved = {**self.coevo_state(), "compared": None}
        self._ahead = Ahead(self._settings, self._context.workload)
        self._evidence = self._questions.begin(policy, (self._saved or {}).get("compared"))
        self._ids, self._numbers = self._questions.ids, self._questions.numbers
        self._evidence.open(0, ())
        self._comparison = Comparison(self._context, self._ids, self._evidence)
        self._truth = lru_cache(_TRUTHS)(partial(ground_truth, policy))
        self._giveaways = Giveaways(policy, self._context.settings.gates)
        self._trials = Trials(self._context, self._library, self._evidence, self._totals)
        self._reflection = Reflection(
            self._context,
            self._ids,
            self._library,
            self._evidence,
            self._failures,
            self._giveaways,
        )
        if self._saved is not None:
            try:
                self._take_up(self._saved)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                raise StateError(
                    f"the checkpoint holds a state of stream that this version cannot read: {error!r}; "
                    "resume with the version that wrote it"
                ) from error
            self._saved = None

    @hookimpl
    def coevo_questions_learned(self, policy: Policy) -> None:
        if self._questions.learn(policy) and self._settings.first_sight:
            self._epoch += 1
            self._reflection.try_again()

    @hookimpl
    def coevo_questions_in_use(self) -> set[str]:
        numbers = self._hard_numbers | self._reflection.under_way
        return {self._ids[number] for number in numbers}

    @hookimpl
    def coevo_plan_group(
        self, question_id: str, round: int, group: int, group_size: int
    ) -> Sequence[MemberPlan] | None:
        """Plan a hard question's group: bare members, members on trial, members under templates in use."""
        number = self._numbers.get(question_id)
        hard = question_id in self._hard
        if number is None:
            return None
        self._ahead.plan(number, self._step, group_size)
        guess = self._settings.first_sight and number not in self._measured
        if not hard and not guess:
            return None
        if self._comparison.compares(number):
            return None
        known = [*self._library.in_state("in use"), *self._library.in_state("trial")]
        templates = self._giveaways.fit(known, question_id)
        if len(templates) == 1:  # only the empty one
            return None
        in_use = sum(template.state == "in use" for template in templates)
        slots = [template.slot for template in templates]
        belief = self._evidence.belief(number, slots, self._step)
        likely = belief.means[1:].max() >= _WORTH_A_GUESS > belief.means[0]
        if not hard and not likely:  # or solved without a template, like its neighbours
            return None
        bare = self._settings.bare_members if hard else group_size // 2
        if bare >= group_size:
            self._warn_of_small_groups(group_size)
        # As long as nothing solves it, an epoch can try more templates than are proposed for it.
        solvable = self._evidence.is_solvable(number, belief.some(1, in_use))
        drawn = draw_members(
            group_size,
            templates,
            belief,
            counter_rng(self._context.settings.seed, "stream/members", round, group),
            bare=bare,
            trying=self._settings.trial_members if solvable else group_size,
        )
        solved = self._settings.solved_from
        return [
            MemberPlan(template=one.candidate, punished_from=solved) if one else MemberPlan()
            for one in drawn
        ]

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        self._observed = True
        groups = [group for group in groups if group.question_id in self._numbers]
        hard = {group.question_id for group in groups if group.question_id in self._hard}
        self._hard.observe_all(groups)
        rollouts = [rollout for group in groups for rollout in group.rollouts]
        self._totals["train_rollouts"] += len(rollouts)
        self._last_round = round_numbers(rollouts, hard, self._settings.solved_from)
        for group in groups:
            self._learn_from([rollout for rollout in group.rollouts if rollout.fit])
        self._failures.settle(self._results.observe(groups))
        self._results.settle()
        for group in groups:
            self._follow_up(group)
        judged = [group for group in groups if group.mean_reward is not None]
        self._measured.update(self._numbers[group.question_id] for group in judged)
        self._groups_of_this_epoch += len(judged)

    # Last, after INSPO has updated its weights: evidence rests on the best instruction of this step.
    @hookimpl(trylast=True)
    def coevo_step_end(self, policy: Policy, last: bool) -> None:
        if not self._ids:
            raise HostError("a step ended before training began; call begin(policy) first")
        self._notice_the_instruction()
        hard = {one for one in self._hard_numbers if not self._comparison.compares(one)}
        self._trials.judge(
            hard, self._epoch, self._step, lambda number: self._truth(self._ids[number])
        )
        for candidate, shown in self._reflection.replies(self._step, policy):
            self._trials.take_in(candidate, shown, self._epoch)
        if not last and self._may_use_replies(hard):
            to_show = {one for one in hard if not self._comparison.unshown(one)}
            self._reflection.ask(self._step, to_show, policy, self._ahead.group_size)
        if self._groups_of_this_epoch >= len(self._ids):
            if not self._epoch:
                self._comparison.close_first_epoch(self._hard_numbers)
            self._groups_of_this_epoch = 0
            self._epoch += 1
            self._reflection.new_epoch()

    @hookimpl
    def coevo_train_end(self, policy: Policy) -> None:
        self._results.end(policy)

    @hookimpl
    def coevo_state(self) -> StreamState:
        if not self._ids:  # before training: return the state as loaded
            return {**self._saved} if self._saved else {}
        return {
            "hard": self._hard.to_json(),
            "library": self._library.to_json(self._ids),
            "evidence": self._evidence.to_json(self._ids),
            "failures": self._failures.to_json(self._ids),
            "results": self._results.to_json(),
            "comparison": self._comparison.to_json(),
            "reflection": self._reflection.to_json(),
            "ahead": self._ahead.to_json(self._ids),
            "measured": [self._ids[number] for number in sorted(self._measured)],
            "epoch": self._epoch,
            "groups_of_this_epoch": self._groups_of_this_epoch,
            "late": self._questions.late,
            "compared": self._questions.compared,
            "instruction": self._instruction,
            "totals": dict(self._totals),
        }

    @hookimpl
    def coevo_load_state(self, state: StreamState) -> None:
        self._saved = state

    @hookimpl
    def coevo_metrics(self) -> dict[str, float]:
        return {
            "hard_samples": float(len(self._hard)),
            "templates_in_use": float(len(self._library.in_state("in use")) - 1),
            "templates_on_trial": float(len(self._library.in_state("trial"))),
            **{name: float(value) for name, value in self._totals.items()},
            **self._verdict.metrics(),
            **self._last_round,
        }

    @hookimpl
    def coevo_summary(self) -> Summary:
        return self._verdict.told(self._what_came())

    # Inside

    def _what_came(self) -> Summary:
        """Summarize the run: how many templates came into use, or the likeliest reason why none did."""
        joined, dropped = self._totals["templates_joined"], self._totals["templates_dropped"]
        met_once = self._epoch + bool(self._groups_of_this_epoch) <= 1
        if joined:
            in_use = len(self._library.in_state("in use")) - 1
            return Summary(f"{joined} templates came into use, {in_use} are at the end")
        # More groups than questions: some were repeated, although no epoch was reported to end.
        met_once = met_once and self._groups_of_this_epoch <= len(self._measured)
        if self._observed and not self._measured:
            text = "no template was ever used, because no rollout could be judged"
            return Summary(f"{text} (no reward, or a tool that failed)", for_nothing=True)
        if met_once and not self._settings.first_sight:
            text = "no template was ever used, because the run met no question twice"
            return Summary(f"{text} (stream.first_sight is false)", for_nothing=True)
        on_trial = len(self._library.in_state("trial"))
        text = f"0 templates came into use: {dropped} were dropped, {on_trial} are on trial"
        return Summary(f"{text}, {len(self._hard)} questions are hard", for_nothing=True)

    @property
    def _verdict(self) -> Verdict:
        if not self._ids:  # before training
            return self._results.verdict(self._step, None, "training did not begin")
        compared = self._comparison.compared(self._results.outcomes, self._numbers)
        return self._results.verdict(self._step, compared, self._comparison.why_not)

    def _take_up(self, state: StreamState) -> None:
        """Restore the saved state, now that the questions are known."""
        if "hard" not in state:
            return
        self._hard.load(state["hard"])
        forget_gone(self._hard, self._numbers.keys(), self._context)
        self._library.load(state["library"], self._numbers)
        for template in self._library:
            self._evidence.open(template.slot, template.shown)
        self._evidence.load(state["evidence"], self._numbers)
        self._failures.load(state["failures"], self._numbers)
        self._results.load(state["results"])
        self._results.outcomes.forget(self._numbers)
        self._comparison.load(state["comparison"], self._numbers)
        self._reflection.load(state["reflection"], self._numbers)
        self._ahead.load(state["ahead"], self._numbers)
        self._measured = {self._numbers[one] for one in state["measured"] if one in self._numbers}
        self._epoch = state["epoch"]
        self._groups_of_this_epoch = state["groups_of_this_epoch"]
        self._questions.late = state["late"]
        self._instruction = state["instruction"]
        self._totals.update(state["totals"])

    def _may_use_replies(self, hard: set[int]) -> bool:
        return self._ahead.may_use_replies(
            self._step,
            hard,
            len(self._ids),
            self._measured,
            streamed=self._questions.late > 0,
        )

    @property
    def _hard_numbers(self) -> set[int]:
        return {self._numbers[one] for one in self._hard}

    @property
    def _step(self) -> int:
        return self._context.policy_version.step

    def _learn_from(self, rollouts: Sequence[Rollout]) -> None:
        """Add the outcomes of rollouts on one question to the evidence, whatever their source and age."""
        slots, rewards, ages = [], [], []
        for rollout in rollouts:
            candidate = rollout.assignment.template
            template = self._library.get(candidate.id if candidate else EMPTY_TEMPLATE.id)
            if template is None:  # dropped in the meantime
                continue
            self._note_outcome(template, rollout)
            slots.append(template.slot)
            # Partial credit is no success: else a template that only earns more of it would seem to work.
            rewards.append(float(rollout.reward >= self._settings.solved_from))
            ages.append(max(0, self._step - rollout.policy_version.step))
        if slots:
            number = self._numbers[rollouts[0].assignment.question_id]
            self._evidence.add(number, slots, rewards, ages, self._step)

    def _follow_up(self, group: Group) -> None:
        """Record the outcomes of a question that is hard, or like a hard one."""
        name, enters, follows = group.question_id, False, False
        if name not in self._results.outcomes:
            number = self._numbers[name]
            first = number not in self._measured
            follows = first and self._comparison.follows(number)
            enters = self._found_hard(group) if first else name in self._hard
            if enters and not follows:
                self._comparison.enter(number)
        hard = name in self._hard
        self._results.outcomes.observe(group, self._step, enters=enters, follows=follows, hard=hard)

    def _found_hard(self, group: Group) -> bool:
        """Judge a question seen for the first time by the first half of its group: at first sight that half
        runs without templates, so the comparison group is found hard by the same measure as the others."""
        if not self._settings.first_sight:
            return group.question_id in self._hard
        half = Group(group.question_id, group.rollouts[: len(group.rollouts) // 2])
        success = self._hard.success(half)
        return success is not None and success < self._settings.tau

    def _note_outcome(self, template: Template, rollout: Rollout) -> None:
        """Record an outcome for reflection and for the template's trial."""
        question_id = rollout.assignment.question_id
        number = self._numbers[question_id]
        solved = rollout.reward >= self._settings.solved_from
        if solved:
            self._failures.solved(number, template.candidate.id)
        elif question_id in self._hard:  # reflection only looks at hard questions
            self._failures.add(number, template.candidate.id, rollout)
        tried = template.state == "trial" and question_id in self._hard
        if tried and concerns(template, number, self._evidence):
            template.count(number, solved)

    def _warn_of_small_groups(self, size: int) -> None:
        if not self._warned:
            self._warned = True
            self._context.warn_early("no_room_for_templates", no_room(self._settings, size))

    def _notice_the_instruction(self) -> None:
        """Halve the evidence if the best instruction has changed: it was collected under the old one."""
        best = self._context.first_result(hookspecs.coevo_best_instruction)
        found = best.id if best else None
        if self._instruction is not None and found != self._instruction:
            self._evidence.halve()
        self._instruction = found
