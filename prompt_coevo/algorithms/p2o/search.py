"""The genetic-Pareto search for templates: P2O Algorithm 3.

All proposals of one front run as one wave: one batch of rollouts for the parents, one concurrent
batch of reflection calls, one batch for the children, and one for the accepted children on the dev
questions. Deviations from the paper: the empty template's own dev evaluation is charged; a proposal
without rollouts of a child (gates, no failures to reflect on) still costs B; reflection calls are limited
by the number of hard questions (`calls_per_hard`), because cached rollouts use up the budget too slowly
to limit them. With `overspend = "never"` a wave holds only what the budget can pay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from prompt_coevo.algorithms.p2o.budget import RolloutBudget
from prompt_coevo.algorithms.p2o.hard_questions import HardQuestions
from prompt_coevo.algorithms.p2o.pareto import select_pareto_front
from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.candidates.evaluation import Evaluator, Job
from prompt_coevo.candidates.leaks import LeakGuards
from prompt_coevo.candidates.searches import SearchRequest, SearchResult
from prompt_coevo.candidates.source import CandidateSource, ProposerUnavailable
from prompt_coevo.candidates.trials import ScoredPool, Trial, verify
from prompt_coevo.context import Context
from prompt_coevo.errors import CoevoError
from prompt_coevo.proposals import ProposalRequest, Trajectory
from prompt_coevo.rng import counter_rng
from prompt_coevo.types import EMPTY_TEMPLATE, Candidate, Rollout, Sampling

NO_CALLS_LEFT: Final = "the calls of this search are used up (p2o.calls_per_hard)"


class SearchEnded(Exception):
    """The search ends here and returns what it has found so far."""


class SearchFailed(SearchEnded):
    """The search ends because something it needs does not work."""


@dataclass
class Attempt:
    """One proposal on its way through a wave."""

    parent: Candidate
    minibatch: tuple[str, ...]
    parent_rollouts: list[Rollout] = field(default_factory=list)
    child: Candidate | None = None


class Search:
    """One run of Algorithm 3. Call `run()` once."""

    def __init__(self, request: SearchRequest, context: Context) -> None:
        self._request = request
        self._settings = context.settings.section(P2OSettings)
        self._context = context
        self._questions = HardQuestions.split(
            request.hard_ids, request.policy, self._settings.dev_size, self._rng("split")
        )
        self._dev_ids, self._train_ids = self._questions.dev_ids, self._questions.train_ids
        self._evaluator = Evaluator(
            request.policy, context.settings.placement.build(), request.instruction
        )
        self._budget = RolloutBudget(
            self._settings.search_budget,
            minibatch=self._minibatch_size,
            dev=len(self._dev_ids),
            overspend=self._settings.overspend,
        )
        guards = request.guards or LeakGuards(context.settings.gates)
        self._source = CandidateSource(context, self._questions.leak_guard(guards))
        self._templates: list[Candidate] = []
        self._scores: list[list[float]] = []
        self._wave = self._proposals = self._barren_waves = 0
        self._calls_left = self._settings.calls_for(len(request.hard_ids))

    def run(self) -> SearchResult:
        """Search until the budget is spent. An evaluator that raises only ends the search early."""
        stopped, failed = "the budget is spent", False
        try:
            if not self._budget.can_score_dev():
                raise SearchFailed("the budget cannot pay for one evaluation on the dev questions")
            self._score_on_dev([EMPTY_TEMPLATE])
            self._run_waves()
        except SearchEnded as end:
            stopped, failed = str(end), isinstance(end, SearchFailed)
        return SearchResult(
            pool=self._pool,
            stopped=stopped,
            failed=failed,
            spent=self._budget.spent,
            overshoot=self._budget.overshoot,
            rollouts=self._evaluator.rollouts,
            waves=self._wave,
            proposals=self._proposals,
            accepted=max(0, len(self._templates) - 1),  # the first one is the empty template
        )

    @property
    def _minibatch_size(self) -> int:
        return min(self._settings.minibatch_size, len(self._train_ids))

    @property
    def _pool(self) -> ScoredPool:
        scores = np.array(self._scores, dtype=np.float64).reshape(-1, len(self._dev_ids))
        return ScoredPool(
            tuple(self._templates), self._dev_ids, scores, self._context.policy_version
        )

    def _rng(self, purpose: str, *counters: int) -> np.random.Generator:
        seed = self._context.settings.seed
        return counter_rng(seed, f"search/{purpose}", self._request.number, *counters)

    def _next_parents(self) -> list[Candidate]:
        """Choose this wave's front (Algorithm 4), as far as the budget can pay for its proposals."""
        rng, width = self._rng("front", self._wave), self._settings.beam_width
        front = select_pareto_front(self._pool.scores, width, rng)
        parents = [self._templates[row] for row in front]
        if self._settings.front_fill and parents:
            parents = [parents[i % len(parents)] for i in range(self._settings.beam_width)]
        if parents and self._calls_left <= 0:
            raise SearchEnded(NO_CALLS_LEFT)
        affordable = self._budget.affordable(len(parents))
        return parents[: int(min(affordable, self._calls_left))]

    def _run_waves(self) -> None:
        while parents := self._next_parents():
            attempts = self._attempts(parents)
            rollouts = self._on_minibatches([(a.parent, a) for a in attempts])
            children = self._propose(attempts, rollouts)
            rollouts = self._on_minibatches([(a.child, a) for a in children if a.child is not None])
            if accepted := self._judge(children, rollouts):
                self._score_on_dev(accepted)

    def _attempts(self, parents: Sequence[Candidate]) -> list[Attempt]:
        return [Attempt(parent, self._draw_minibatch(n)) for n, parent in enumerate(parents)]

    def _on_minibatches(self, tried: Sequence[tuple[Candidate, Attempt]]) -> list[Rollout]:
        jobs = [(template, x) for template, attempt in tried for x in attempt.minibatch]
        return self._roll_out(jobs, self._settings.minibatch_temperature)

    def _draw_minibatch(self, index: int) -> tuple[str, ...]:
        rng = self._rng("minibatch", self._wave, index)
        drawn = rng.choice(len(self._train_ids), size=self._minibatch_size, replace=False)
        return tuple(self._train_ids[position] for position in drawn)

    def _propose(self, attempts: Sequence[Attempt], rollouts: Sequence[Rollout]) -> list[Attempt]:
        """Ask for one child per attempt whose parent has failures to learn from, and gate the children.

        Returns the attempts with a child. Raises SearchEnded after too many waves without any.
        """
        of_parents = iter(rollouts)
        for attempt in attempts:
            attempt.parent_rollouts = [next(of_parents) for _ in attempt.minibatch]
            self._budget.charge_attempt()
        self._proposals += len(attempts)
        self._ask([attempt for attempt in attempts if self._failures(attempt)])
        self._wave += 1
        children = [attempt for attempt in attempts if attempt.child is not None]
        self._give_up_after_barren_waves(bool(children))
        return children

    def _ask(self, reflecting: Sequence[Attempt]) -> None:
        if not reflecting:
            return
        self._calls_left -= len(reflecting)
        requests = [
            ProposalRequest(
                "template", (attempt.parent,), self._failures(attempt), self._settings.proposer
            )
            for attempt in reflecting
        ]
        try:
            answers = self._source.ask(requests, self._known_texts())
        except ProposerUnavailable as error:
            raise SearchFailed(str(error)) from error
        for attempt, children in zip(reflecting, answers, strict=True):
            attempt.child = children[0] if children else None

    def _known_texts(self) -> set[str]:
        return {template.text for template in self._templates}

    def _failures(self, attempt: Attempt) -> tuple[Trajectory, ...]:
        return self._questions.failures(
            attempt.minibatch, attempt.parent_rollouts, self._settings.solved_from
        )

    def _give_up_after_barren_waves(self, any_child: bool) -> None:
        self._barren_waves = 0 if any_child else self._barren_waves + 1
        if self._barren_waves >= self._settings.max_barren_waves:
            raise SearchEnded(f"{self._barren_waves} waves in a row gave no candidate to try")

    def _judge(self, attempts: Sequence[Attempt], rollouts: Sequence[Rollout]) -> list[Candidate]:
        """Return the children that `coevo_verify` accepts on their minibatches."""
        of_children = iter(rollouts)
        trials = []
        for attempt in attempts:
            self._budget.charge_child()
            assert attempt.child is not None
            child_rollouts = [next(of_children) for _ in attempt.minibatch]
            trials.append(
                Trial.paired(attempt.parent, attempt.child, attempt.parent_rollouts, child_rollouts)
            )
        if not trials:
            return []
        verdicts = verify(self._context, "p2o", trials)
        return [trial.child for trial, ok in zip(trials, verdicts, strict=True) if ok]

    def _score_on_dev(self, templates: Sequence[Candidate]) -> None:
        """Score templates on the dev questions and add them to the pool."""
        jobs = [(template, question_id) for template in templates for question_id in self._dev_ids]
        rollouts = self._roll_out(jobs, self._settings.dev_temperature)
        rewards = [rollout.reward if rollout.fit else 0.0 for rollout in rollouts]
        size = len(self._dev_ids)
        for index, template in enumerate(templates):
            self._templates.append(template)
            self._scores.append(rewards[index * size : (index + 1) * size])
        self._budget.charge_dev(len(templates))

    def _roll_out(self, jobs: Sequence[Job], temperature: float | None) -> list[Rollout]:
        return roll_out(self._evaluator, jobs, Sampling(temperature))


def roll_out(evaluator: Evaluator, jobs: Sequence[Job], sampling: Sampling) -> list[Rollout]:
    """Evaluate in one batch. Errors end the search, except CoevoError, which must stop the trainer."""
    try:
        return evaluator.evaluate(jobs, sampling)
    except CoevoError:
        raise
    except Exception as error:
        raise SearchFailed(f"the evaluation failed: {type(error).__name__}: {error}") from error
