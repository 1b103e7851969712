"""Run the template search with the package `gepa` (0.1.4) in place of P2O's Algorithm 3.

gepa chooses parents (by its per-question best sets) and minibatches, and runs the loop. P2O's are the
split, the rollouts, the proposer with its gates, `coevo_verify` and the accounts.
"""

from __future__ import annotations

import logging

import gepa
import numpy as np
from gepa.core.state import GEPAState
from gepa.proposer.base import CandidateProposal

from prompt_coevo.algorithms.p2o.budget import RolloutBudget
from prompt_coevo.algorithms.p2o.hard_questions import HardQuestions
from prompt_coevo.algorithms.p2o.search import NO_CALLS_LEFT, SearchEnded, SearchFailed
from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.candidates.evaluation import Evaluator
from prompt_coevo.candidates.leaks import LeakGuards
from prompt_coevo.candidates.searches import SearchRequest, SearchResult
from prompt_coevo.candidates.source import CandidateSource, ProposerUnavailable
from prompt_coevo.candidates.trials import ScoredPool, Trial, verify
from prompt_coevo.context import Context
from prompt_coevo.errors import CoevoError
from prompt_coevo.markers import PROJECT
from prompt_coevo.rng import counter_rng
from prompt_coevo.types import EMPTY_TEMPLATE
from prompt_coevo_gepa.adapter import COMPONENT, Sample, TemplateAdapter
from prompt_coevo_gepa.batching import AffordableSampling, Reflection
from prompt_coevo_gepa.settings import GepaSettings

logger = logging.getLogger(PROJECT)


class GepaSearch:
    """One run of `gepa.optimize`, in the shape of P2O's `Search`. Use `run()` once."""

    def __init__(self, request: SearchRequest, context: Context) -> None:
        self._request = request
        self._context = context
        self._settings = settings = context.settings.section(P2OSettings)
        self._questions = HardQuestions.split(
            request.hard_ids, request.policy, settings.dev_size, self._rng("split")
        )
        self._evaluator = Evaluator(
            request.policy, context.settings.placement.build(), request.instruction
        )
        self._minibatch_size = min(settings.minibatch_size, len(self._questions.train_ids))
        self._budget = RolloutBudget(
            settings.search_budget,
            minibatch=self._minibatch_size,
            dev=len(self._questions.dev_ids),
            overspend="never",
        )
        guards = request.guards or LeakGuards(context.settings.gates)
        source = CandidateSource(context, self._questions.leak_guard(guards))
        self._adapter = TemplateAdapter(
            settings, self._questions, self._evaluator, self._budget, source
        )

    def run(self) -> SearchResult:
        """Search until the budget is spent. An exception ends it early, unless it stops the host."""
        stopped, failed = "the budget is spent", False
        try:
            if not self._budget.can_score_dev():
                raise SearchFailed("the budget cannot pay for one evaluation on the dev questions")
            self._optimize()
            if self._adapter.error is not None:
                raise self._adapter.error
            if self._adapter.calls_left <= 0:
                stopped = NO_CALLS_LEFT
        except CoevoError:
            raise
        except (SearchEnded, ProposerUnavailable) as end:
            stopped, failed = str(end), isinstance(end, (SearchFailed, ProposerUnavailable))
        except Exception as error:
            stopped, failed = f"gepa failed: {type(error).__name__}: {error}", True
        return SearchResult(
            pool=self._pool,
            stopped=stopped,
            failed=failed,
            spent=self._budget.spent,
            rollouts=self._evaluator.rollouts,
            waves=self._adapter.proposals,  # each a wave of one
            proposals=self._adapter.proposals,
            accepted=max(0, len(self._adapter.templates) - 1),
        )

    @property
    def _pool(self) -> ScoredPool:
        dev_ids = self._questions.dev_ids
        scores = np.array(self._adapter.scores, dtype=np.float64).reshape(-1, len(dev_ids))
        return ScoredPool(
            tuple(self._adapter.templates), dev_ids, scores, self._context.policy_version
        )

    def _rng(self, purpose: str) -> np.random.Generator:
        seed = self._context.settings.seed
        return counter_rng(seed, f"search/{purpose}", self._request.number)

    def _optimize(self) -> None:
        # No run directory and no cache: gepa would answer with scores of other weights, and its cache
        # takes dev question 0 for train question 0.
        gepa.optimize(
            seed_candidate={COMPONENT: EMPTY_TEMPLATE.text},
            trainset=[Sample(question_id, dev=False) for question_id in self._questions.train_ids],
            valset=[Sample(question_id, dev=True) for question_id in self._questions.dev_ids],
            adapter=self._adapter,
            reflection_strategy=Reflection(self._adapter),
            sampling_strategy=AffordableSampling(
                self._context.settings.section(GepaSettings).proposals, self._adapter
            ),
            acceptance_criterion=_Verification(self._context, self._adapter),
            reflection_minibatch_size=self._minibatch_size,
            perfect_score=self._settings.solved_at,
            max_metric_calls=self._settings.search_budget,
            stop_callbacks=self._adapter.must_stop,
            seed=int(self._rng("gepa").integers(2**31)),
            logger=_DebugLog(),
            track_best_outputs=False,
            cache_evaluation=False,
            run_dir=None,
        )


class _Verification:
    """A `gepa.AcceptanceCriterion` that asks `coevo_verify`, as Algorithm 3's search does."""

    def __init__(self, context: Context, adapter: TemplateAdapter) -> None:
        self._context = context
        self._adapter = adapter

    def should_accept(self, proposal: CandidateProposal, state: GEPAState) -> bool:
        trial = self._trial(proposal, state)
        [accepted] = verify(self._context, "p2o", [trial])
        return accepted

    def _trial(self, proposal: CandidateProposal, state: GEPAState) -> Trial:
        assert proposal.eval_before is not None
        assert proposal.eval_after is not None
        [parent] = proposal.parent_program_ids
        before, after = proposal.eval_before.outputs, proposal.eval_after.outputs
        return Trial.paired(
            self._adapter.candidate(state.program_candidates[parent]),
            self._adapter.candidate(proposal.candidate),
            before,
            after,
        )


class _DebugLog:
    """A `gepa` logger that keeps the console clean."""

    def log(self, message: str) -> None:
        logger.debug("gepa: %s", message)
