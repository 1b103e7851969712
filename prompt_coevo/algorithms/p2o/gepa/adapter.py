"""Our side of the package `gepa`: how its engine has templates rolled out and asks for new ones.

gepa 0.1.4 goes on after an exception in `propose_new_texts`, and calls it a second time for the same
parent; therefore it raises nothing here: an error is kept in `error`, and `must_stop` ends the search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from prompt_coevo.algorithms.p2o.budget import RolloutBudget
from prompt_coevo.algorithms.p2o.hard_questions import HardQuestions
from prompt_coevo.algorithms.p2o.search import roll_out
from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.candidates.evaluation import Evaluator
from prompt_coevo.candidates.source import CandidateSource
from prompt_coevo.proposals import ProposalRequest, Trajectory
from prompt_coevo.types import EMPTY_TEMPLATE, Candidate, Rollout, Sampling

if TYPE_CHECKING:
    from gepa import EvaluationBatch

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
        self._calls_left = settings.calls_for(len(questions.questions))
        self._candidates = {EMPTY_TEMPLATE.text: EMPTY_TEMPLATE}

    def candidate(self, texts: Mapping[str, str]) -> Candidate:
        """The candidate behind gepa's texts."""
        return self._candidates[texts[COMPONENT]]

    def must_stop(self, gepa_state: object) -> bool:
        """A `gepa.StopperProtocol`: something failed, or no further proposal can be paid in full."""
        spent = self._calls_left <= 0 or not self._budget.affordable(1)
        return self.error is not None or spent

    def evaluate(
        self, batch: list[Sample], candidate: dict[str, str], capture_traces: bool = False
    ) -> EvaluationBatch[Rollout, Rollout]:
        """Roll out one template, all questions in one batch."""
        from gepa import EvaluationBatch

        template, dev = self.candidate(candidate), batch[0].dev
        temperature = (
            self._settings.dev_temperature if dev else self._settings.minibatch_temperature
        )
        jobs = [(template, sample.question_id) for sample in batch]
        rollouts = roll_out(self._evaluator, jobs, Sampling(temperature))
        rewards = [rollout.reward if rollout.fit else 0.0 for rollout in rollouts]
        self._keep_accounts(template, rewards, dev)
        return EvaluationBatch(outputs=rollouts, scores=rewards, trajectories=rollouts)

    def make_reflective_dataset(
        self,
        candidate: dict[str, str],
        eval_batch: EvaluationBatch[Rollout, Rollout],
        components_to_update: list[str],
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """The failures of a minibatch, as gepa passes them on to `propose_new_texts`."""
        rollouts = eval_batch.outputs
        question_ids = [rollout.assignment.question_id for rollout in rollouts]
        failures = self._questions.failures(question_ids, rollouts, self._settings.solved_at)
        return {COMPONENT: [asdict(failure) for failure in failures]}

    def propose_new_texts(
        self,
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        """A child that passed the gates, or nothing: then gepa drops the proposal before any rollout."""
        failures = tuple(Trajectory(**failure) for failure in reflective_dataset[COMPONENT])
        if not failures:
            return {}
        self._calls_left -= 1
        parent = self.candidate(candidate)
        request = ProposalRequest("template", (parent,), failures, self._settings.proposer)
        try:
            [children] = self._source.ask([request], {known.text for known in self.templates})
        except Exception as error:
            self.error = error
            return {}
        if not children:
            return {}
        self._candidates[children[0].text] = children[0]
        return {COMPONENT: children[0].text}

    def _keep_accounts(self, template: Candidate, rewards: list[float], dev: bool) -> None:
        """gepa scores a template on dev once it has accepted it, the empty one at the start."""
        if dev:
            self._budget.charge_dev()
            self.templates.append(template)
            self.scores.append(rewards)
        elif template in self.templates:
            self._budget.charge_attempt()
            self.proposals += 1
        else:
            self._budget.charge_child()
