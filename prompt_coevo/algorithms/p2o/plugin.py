"""P2O: Joint Policy and Prompt Optimization (arXiv 2603.21877), Algorithms 1 to 4.

During training, every group's mean reward shows whether its question is hard (eq. 4). At the end of an
epoch a genetic-Pareto search (`search.py`) evolves templates under which the current policy solves the
hard questions. In the next epoch their rollouts run under these templates, while the trainer trains on
the questions without them (eq. 5, `distill.py`).

Deviations: a hard question that an epoch did not measure stays hard; after a search without enough hard
questions, or one that solves nothing, the next epoch has no templates; a template under which a constant
answer would score the same is left out (`one_answer`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TypedDict

from prompt_coevo import hookspecs
from prompt_coevo.algorithms.hard_questions.hard_set import HardSet, forget_gone
from prompt_coevo.algorithms.hard_questions.results import Results, ResultsState
from prompt_coevo.algorithms.hard_questions.round_numbers import round_numbers
from prompt_coevo.algorithms.hard_questions.verdict import Verdict
from prompt_coevo.algorithms.p2o.cover import CoverState, TemplateCover, one_answer
from prompt_coevo.algorithms.p2o.search import Search
from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.algorithms.p2o.solvers import Solvers, SolversState
from prompt_coevo.candidates.leaks import LeakGuards
from prompt_coevo.candidates.searches import SearchRequest, SearchResult
from prompt_coevo.candidates.trials import Trial
from prompt_coevo.context import Context
from prompt_coevo.markers import PROJECT, hookimpl
from prompt_coevo.policy import Policy, ground_truth
from prompt_coevo.rng import counter_rng
from prompt_coevo.types import EMPTY_TEMPLATE, Group, MemberPlan, Summary

logger = logging.getLogger(PROJECT)


class P2OState(TypedDict):
    """What a checkpoint holds of P2O."""

    hard: list[str]
    cover: CoverState | None
    solvers: SolversState
    results: ResultsState
    searches: int
    totals: dict[str, int]
    most_templates: int
    last_outcome: str | None


class P2O:
    """The plugin, registered as `p2o`."""

    def __init__(self, context: Context) -> None:
        # Fail before training, not after an epoch, if the proposer is missing.
        settings = context.settings.section(P2OSettings)
        context.proposer(settings.proposer)
        self._context = context
        self._settings = settings
        self._hard = HardSet.of(settings, context)
        self._results = Results(settings)
        self._bare = settings.bare_hardness
        self._solvers = Solvers(settings.solved_from)
        self._guards = LeakGuards(context.settings.gates)
        self._cover: TemplateCover | None = None
        self._searches = 0
        self._totals = {"searches": 0, "search_rollouts": 0, "train_rollouts": 0}
        self._last_round: dict[str, float] = {}
        self._last_outcome: str | None = None
        """What came of the last search, or why there was none."""
        self._most_templates = 0

    # Phase 1: use the templates, find the hard questions

    @hookimpl
    def coevo_questions_in_use(self) -> tuple[str, ...]:
        return self._hard.ids

    @hookimpl
    def coevo_plan_group(self, question_id: str, group_size: int) -> Sequence[MemberPlan] | None:
        """Draw `group_size` templates for a question of the last hard set (Algorithm 1, lines 7 to 10).

        The draw depends only on the search and the question, so the k-th rollout of a question keeps its
        template through the whole epoch. With `hardness = "bare"` the first rollout has no template, and
        the others have templates that solved this very question, if there are any.
        """
        rng = counter_rng(self._context.settings.seed, "p2o/templates", self._searches, question_id)
        if self._bare and question_id in self._hard:
            draws = 1 if self._settings.group_templates == "same" else group_size
            drawn = self._solvers.draw(question_id, draws, rng) * (group_size // draws)
        else:
            drawn = []
        if not drawn and self._cover is not None and question_id in self._cover.hard_ids:
            drawn = self._cover.draw(question_id, group_size, rng, self._settings.group_templates)
        if not drawn:
            return None
        if self._bare:
            drawn[0] = EMPTY_TEMPLATE
        return [MemberPlan(template=template) for template in drawn]

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        """Record which questions are hard and how their rollouts did (Algorithm 1, lines 15 to 18)."""
        hard = {group.question_id for group in groups if group.question_id in self._hard}
        self._hard.observe_all(groups)
        self._results.observe(groups)
        self._results.settle()
        for group in groups:
            enters = group.question_id in self._hard
            self._results.outcomes.observe(group, self._context.policy_version.step, enters=enters)
        if self._bare:
            self._solvers.observe(groups)
        rollouts = [rollout for group in groups for rollout in group.rollouts]
        self._totals["train_rollouts"] += len(rollouts)
        self._last_round = round_numbers(rollouts, hard, self._settings.solved_from)

    # Phase 2: search

    # Last, after INSPO has updated its weights: a search runs under the best instruction of this step.
    @hookimpl(trylast=True)
    def coevo_step_end(self, policy: Policy, last: bool) -> None:
        every = self._settings.search_every
        if every != "epoch" and not last and self._context.policy_version.step % every == 0:
            self._evolve(policy)

    @hookimpl
    def coevo_epoch_end(self, policy: Policy) -> None:
        if self._settings.search_every == "epoch":
            self._evolve(policy)

    def _evolve(self, policy: Policy) -> None:
        """Search for new templates for the hard questions (Algorithm 1, lines 23 to 27)."""
        forget_gone(self._hard, set(policy.question_ids()), self._context)
        hard_ids = self._hard.ids
        self._solvers.keep_only(hard_ids)
        self._cover = None
        if len(hard_ids) < self._settings.min_hard:
            reason = (
                f"{len(hard_ids)} hard questions, fewer than min_hard = {self._settings.min_hard}"
            )
            self._last_outcome = reason
            self._without_templates("search_skipped", reason=reason)
            return
        instruction = self._context.first_result(hookspecs.coevo_best_instruction)
        request = SearchRequest(self._searches, hard_ids, policy, instruction, self._guards)
        result = self._context.first_result(hookspecs.coevo_search, request=request)
        self._searches += 1
        if result is None:
            self._last_outcome = "the last search failed"
            self._without_templates("search_failed")
            return
        self._totals["searches"] += 1
        self._totals["search_rollouts"] += result.rollouts
        solved_at = self._settings.solved_from
        constant = one_answer(result.pool, solved_at, partial(ground_truth, policy))
        for template in constant:
            self._context.note("one_answer", template=template.id, text=template.text)
        self._cover = TemplateCover.from_pool(
            result.pool.without(constant), frozenset(hard_ids), solved_at
        )
        self._most_templates = max(self._most_templates, self._in_use)
        self._context.notify(
            hookspecs.coevo_after_templates_assigned, cover=self._cover, result=result
        )
        self._last_outcome = (
            f"{result.accepted} of {result.proposals} proposals accepted, {self._in_use} templates for "
            f"{len(hard_ids)} hard questions"
        )
        level = logging.WARNING if result.failed else logging.INFO
        logger.log(level, "search %d: %s; %s", self._searches, self._last_outcome, result.stopped)

    def _without_templates(self, event: str, **fields: str) -> None:
        self._context.note(event, **fields)
        self._context.notify(hookspecs.coevo_after_templates_assigned, cover=None, result=None)

    @hookimpl(trylast=True)
    def coevo_search(self, request: SearchRequest) -> SearchResult:
        """Run Algorithm 3."""
        return Search(request, self._context).run()

    @hookimpl(trylast=True)
    def coevo_verify(self, algorithm: str, trials: Sequence[Trial]) -> Sequence[bool] | None:
        """Accept children with a strictly greater mean on the minibatch (Algorithm 3, line 15)."""
        if algorithm != "p2o":
            return None
        return [trial.gain > 0 for trial in trials]

    @hookimpl
    def coevo_train_end(self, policy: Policy) -> None:
        self._results.end(policy)

    # State and numbers

    @hookimpl
    def coevo_state(self) -> P2OState:
        return {
            "hard": self._hard.to_json(),
            "cover": self._cover.to_json() if self._cover else None,
            "solvers": self._solvers.to_json(),
            "results": self._results.to_json(),
            "searches": self._searches,
            "totals": dict(self._totals),
            "most_templates": self._most_templates,
            "last_outcome": self._last_outcome,
        }

    @hookimpl
    def coevo_load_state(self, state: P2OState) -> None:
        self._hard.load(state["hard"])
        self._cover = TemplateCover.from_json(state["cover"]) if state["cover"] else None
        self._solvers.load(state["solvers"])
        self._results.load(state["results"])
        self._searches = state["searches"]
        self._totals = dict(state["totals"])
        self._most_templates = state["most_templates"]
        self._last_outcome = state["last_outcome"]

    @hookimpl
    def coevo_metrics(self) -> dict[str, float]:
        return {
            "hard_samples": float(len(self._hard)),
            "cover_templates": float(self._in_use),
            **{name: float(value) for name, value in self._totals.items()},
            **self._verdict.metrics(),
            **self._last_round,
        }

    @hookimpl
    def coevo_summary(self) -> Summary:
        searches = self._totals["searches"]
        if searches:
            plural = "" if searches == 1 else "es"
            text = f"{self._in_use} templates in use after {searches} search{plural}"
            if not self._in_use:
                text += f" ({self._last_outcome})"
        elif self._searches:
            text = f"0 templates: all searches failed ({self._searches})"
        elif self._last_outcome is not None:
            text = f"no search ever happened: {self._last_outcome}"
        else:
            every = self._settings.search_every
            short = "had one epoch" if every == "epoch" else f"ended before step {every + 1}"
            text = f"no search ever happened, because the run {short} (p2o.search_every)"
        return self._verdict.told(Summary(text, for_nothing=not self._most_templates))

    @property
    def _verdict(self) -> Verdict:
        why_not = "P2O keeps no hard question without templates to compare with; stream can"
        return self._results.verdict(self._context.policy_version.step, None, why_not)

    @property
    def _in_use(self) -> int:
        return len(self._cover.templates) if self._cover else 0
