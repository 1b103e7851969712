"""Adapt to the package `gepa`: its engine gets rollouts and new templates through this class.

gepa 0.1.4 continues after an exception in `propose_new_texts`, and calls it a second time for the same
parent; so nothing raises here: an error is kept in `error`, and `must_stop` ends the search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from gepa import EvaluationBatch

from prompt_coevo.algorithms.p2o.budget import RolloutBudget
from prompt_coevo.algorithms.p2o.hard_questions import HardQuestions
from prompt_coevo.algorithms.p2o.search import roll_out
from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.candidates.evaluation import Evaluator
from prompt_coevo.candidates.source import CandidateSource
from prompt_coevo.proposals import ProposalRequest, Trajectory
from prompt_coevo.types import EMPTY_TEMPLATE, Candidate, Rollout, Sampling

COMPONENT: Final = "template"
"""gepa evolves named texts; a template is the only one."""


@dataclass(frozen=True)
class Sample:
    """A question as gepa handles it. Dev and train questions are sampled at different temperatures."""

    question_id: str
    dev: bool


class TemplateAdapter:
    """A `gepa.GEPAAdapter`. Keeps the accounts and the pool, so that both outlive an exception."""

    def __init__(
        self,
        settings: P2OSettings,
        questions: HardQuestions,
        evaluator: Evaluator,
        budget: RolloutBudget,
        source: CandidateSource,
    ) -> None:
        self.templates: list[Candidate] = []
        self.scores: list[list[float]] = []
        self.proposals = 0
        self.error: Exception | None = None
        self._settings = settings
        self._questions = questions
        self._evaluator = evaluator
        self._budget = budget
        self._source = source
        self.calls_left = settings.calls_for(len(questions.questions))
        self._candidates = {EMPTY_TEMPLATE.text: EMPTY_TEMPLATE}

    def candidate(self, texts: Mapping[str, str]) -> Candidate:
        """Return the candidate behind gepa's texts."""
        return self._candidates[texts[COMPONENT]]

    def must_stop(self, gepa_state: object) -> bool:
        """Stop, as a `gepa.StopperProtocol`, after an error or when no further proposal can be paid in
        full."""
        return self.error is not None or not self.affordable(1)

    def evaluate(
        self, batch: list[Sample], candidate: dict[str, str], capture_traces: bool = False
    ) -> EvaluationBatch[Rollout, Rollout]:
        """Roll out one template."""
        return self.batch_evaluate([(candidate, batch)])[0]

    def batch_evaluate(
        self, items: list[tuple[dict[str, str], list[Sample]]]
    ) -> list[EvaluationBatch[Rollout, Rollout]]:
        """Roll out templates on their questions in one batch; all or none of these are dev questions."""
        templates = [self.candidate(texts) for texts, _ in items]
        dev = items[0][1][0].dev
        temperature = (
            self._settings.dev_temperature if dev else self._settings.minibatch_temperature
        )
        jobs = [
            (template, sample.question_id)
            for template, (_, batch) in zip(templates, items, strict=True)
            for sample in batch
        ]
        done = iter(roll_out(self._evaluator, jobs, Sampling(temperature)))
        found = []
        for template, (_, batch) in zip(templates, items, strict=True):
            rollouts = [next(done) for _ in batch]
            rewards = [rollout.reward if rollout.fit else 0.0 for rollout in rollouts]
            self._keep_accounts(template, rewards, dev)
            found.append(EvaluationBatch(outputs=rollouts, scores=rewards, trajectories=rollouts))
        return found

    def make_reflective_dataset(
        self,
        candidate: dict[str, str],
        eval_batch: EvaluationBatch[Rollout, Rollout],
        components_to_update: list[str],
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return the failures of a minibatch, as gepa passes them on to `propose_new_texts`."""
        rollouts = eval_batch.outputs
        question_ids = [rollout.assignment.question_id for rollout in rollouts]
        failures = self._questions.failures(question_ids, rollouts, self._settings.solved_from)
        return {COMPONENT: [asdict(failure) for failure in failures]}

    propose_new_texts = None  # `Reflection` does

    def children(
        self, jobs: Sequence[tuple[Mapping[str, str], Sequence[Mapping[str, Any]]]]
    ) -> list[str | None]:
        """Return for each parent with its failures a child that passed the gates, or None: then gepa drops
        the proposal before any rollout. All calls run concurrently."""
        failures = [tuple(Trajectory(**one) for one in shown) for _, shown in jobs]
        requests = {
            number: ProposalRequest(
                "template", (self.candidate(texts),), failures[number], self._settings.proposer
            )
            for number, (texts, _) in enumerate(jobs)
            if failures[number]
        }
        found: list[str | None] = [None] * len(jobs)
        if not requests or self.error is not None:
            return found
        self.calls_left -= len(requests)
        known = {known.text for known in self.templates}
        try:
            answers = self._source.ask(list(requests.values()), known)
        except Exception as error:
            self.error = error
            return found
        for number, candidates in zip(requests, answers, strict=True):
            if candidates:
                self._candidates[candidates[0].text] = candidates[0]
                found[number] = candidates[0].text
        return found

    def affordable(self, proposals: int) -> int:
        """Return how many of the next `proposals` can be paid for."""
        return int(min(self._budget.affordable(proposals), max(0, self.calls_left)))

    def _keep_accounts(self, template: Candidate, rewards: list[float], dev: bool) -> None:
        """Keep the accounts: gepa scores a template on dev once it has accepted it, the empty one at the
        start."""
        if dev:
            self._budget.charge_dev()
            self.templates.append(template)
            self.scores.append(rewards)
        elif template in self.templates:
            self._budget.charge_attempt()
            self.proposals += 1
        else:
            self._budget.charge_child()
