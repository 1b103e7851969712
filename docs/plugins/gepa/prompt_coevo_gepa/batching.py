"""Run gepa's own batching: several proposals in one iteration, with joint calls and rollouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gepa.core.data_loader import DataLoader
from gepa.core.state import GEPAState
from gepa.proposer.reflective_mutation.base import CandidateSelector
from gepa.proposer.reflective_mutation.reflection_lm import ReflectionProposal
from gepa.strategies.batch_sampler import BatchSampler
from gepa.strategies.proposal_sampling import IndependentSampling, ProposalTask

from prompt_coevo_gepa.adapter import COMPONENT, TemplateAdapter


class AffordableSampling:
    """A `gepa.SamplingStrategy`: up to `most` parents, each with its own minibatch, as far as the budget
    pays for them in full."""

    def __init__(self, most: int, adapter: TemplateAdapter) -> None:
        self._most, self._adapter = most, adapter

    def sample_tasks(
        self,
        state: GEPAState,
        candidate_selector: CandidateSelector,
        batch_sampler: BatchSampler,
        trainset: DataLoader,
    ) -> list[ProposalTask]:
        independent = IndependentSampling(self._adapter.affordable(self._most))
        tasks: list[ProposalTask] = independent.sample_tasks(
            state, candidate_selector, batch_sampler, trainset
        )
        return tasks


class Reflection:
    """A `gepa.BatchReflectionLM`: our proposer, with its gates."""

    def __init__(self, adapter: TemplateAdapter) -> None:
        self._adapter = adapter

    def reflect(
        self,
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: list[str],
    ) -> tuple[ReflectionProposal, Reflection]:
        [found] = self.reflect_many([(candidate, reflective_dataset, components_to_update)])
        return found

    def reflect_many(
        self,
        jobs: list[tuple[dict[str, str], Mapping[str, Sequence[Mapping[str, Any]]], list[str]]],
    ) -> list[tuple[ReflectionProposal, Reflection]]:
        children = self._adapter.children([(texts, shown[COMPONENT]) for texts, shown, _ in jobs])
        return [
            (ReflectionProposal({COMPONENT: child} if child else {}), self) for child in children
        ]
