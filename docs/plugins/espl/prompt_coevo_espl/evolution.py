"""Breed children: one of the best prompt of the last rounds, and sometimes one of it and another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from prompt_coevo import Candidate, Policy, Question
from prompt_coevo.candidates.leaks import leak_guard
from prompt_coevo.candidates.source import CandidateSource, ProposerUnavailable
from prompt_coevo.context import Context
from prompt_coevo.proposals import ProposalRequest, Trajectory
from prompt_coevo.rng import counter_rng
from prompt_coevo_espl.evidence import Evidence, Failure
from prompt_coevo_espl.pool import Pool
from prompt_coevo_espl.settings import EsplSettings


class Breeder:
    """Request children of the prompts that did well. It changes nothing itself."""

    def __init__(self, context: Context, pool: Pool, evidence: Evidence) -> None:
        self._context = context
        self._settings = context.settings.section(EsplSettings)
        self._pool = pool
        self._evidence = evidence

    def children(self, number: int, policy: Policy) -> list[Candidate]:
        """Return the children of evolution `number` that passed the gates; none without failures."""
        rng = counter_rng(self._context.settings.seed, "espl/children", number)
        requests = list(self._requests(rng, policy))
        if not requests:
            self._context.note("espl_skipped", reason="nothing has failed under the best prompt")
            return []
        shown = [
            Question("", failure.question, failure.ground_truth)
            for request in requests
            for failure in request.failures
        ]
        source = CandidateSource(self._context, leak_guard(shown, self._context.settings.gates))
        known = {member.text for member in self._pool.members}
        try:
            return [child for found in source.ask(requests, known) for child in found]
        except ProposerUnavailable as error:
            self._context.note("espl_skipped", reason=str(error))
            return []

    def _requests(self, rng: np.random.Generator, policy: Policy) -> Iterator[ProposalRequest]:
        means = {name: mean for name, mean in self._evidence.means.items() if name in self._pool}
        if not means:
            return
        best = max(means, key=means.__getitem__)
        crosses = rng.random() < self._settings.crossover_share
        if failures := self._shown(self._evidence.failures(best), rng, policy):
            parent = self._pool.member(best)
            yield ProposalRequest("instruction", (parent,), failures, self._settings.mutation)
        partner = self._partner(best, means)
        if crosses and partner is not None:
            failures = self._shown(self._evidence.failures(best, partner), rng, policy)
            parents = (self._pool.member(best), self._pool.member(partner))
            scores = tuple((one.text, means[one.id]) for one in parents)
            yield ProposalRequest(
                "instruction", parents, failures, self._settings.crossover, history=scores
            )

    def _partner(self, best: str, means: dict[str, float]) -> str | None:
        """Return the prompt besides the best that alone won the most questions; None without any."""
        others = [name for name in means if name != best and self._evidence.wins(name)]
        return max(others, key=self._evidence.wins, default=None)

    def _shown(
        self, failures: Sequence[Failure], rng: np.random.Generator, policy: Policy
    ) -> tuple[Trajectory, ...]:
        """Return as many failures as one call gets, of questions that the dataset still has."""
        known = set(policy.question_ids())
        there = [failure for failure in failures if failure.question_id in known]
        chosen = rng.permutation(len(there))[: self._settings.failures_per_reflection]
        return tuple(
            Trajectory.of(policy.question(one.question_id), one.completion, one.reward)
            for one in (there[int(place)] for place in chosen)
        )
