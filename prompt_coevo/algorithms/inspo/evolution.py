"""One evolution of the population: INSPO Algorithm 1, lines 16 to 24.

Repeat rounds of generating and verifying until the population is full again or `rounds` are over. The
paper's line 18 tests the size of a set that line 22 does not fill, and it leaves open what joins. Here
the parents and the new instructions fill the population together, and a child joins only if it does at
least as well as its parent on the same questions under the same weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np

from prompt_coevo import hookspecs
from prompt_coevo.algorithms.inspo.population import Population
from prompt_coevo.algorithms.inspo.replay import ReplayBuffer
from prompt_coevo.algorithms.inspo.settings import InspoSettings
from prompt_coevo.candidates.evaluation import Evaluator
from prompt_coevo.candidates.leaks import LeakGuard, leak_guard
from prompt_coevo.candidates.source import CandidateSource
from prompt_coevo.candidates.trials import Trial, verify
from prompt_coevo.context import Context
from prompt_coevo.lines import JSON
from prompt_coevo.policy import Policy
from prompt_coevo.proposals import Proposal, ProposalRequest, Trajectory
from prompt_coevo.rng import counter_rng
from prompt_coevo.types import Candidate, PolicyVersion, Question, Rollout, Sampling

_REMEMBERED = 200
_SHOWN = 20  # as many as Yang et al. (2024)


class EvolutionState(TypedDict):
    """The saved `Evolution`."""

    number: int
    parents: list[dict[str, JSON]]
    parent_weights: dict[str, float]
    round: int
    joined: list[str]
    tried: list[str]


@dataclass
class Evolution:
    """The progress of one evolution. `number` counts the evolutions of the run."""

    number: int
    parents: tuple[Candidate, ...]
    parent_weights: dict[str, float]
    round: int = 0
    joined: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    """Texts that this evolution has verified and will not try again."""

    def to_json(self) -> EvolutionState:
        return {
            "number": self.number,
            "parents": [parent.to_json() for parent in self.parents],
            "parent_weights": dict(self.parent_weights),
            "round": self.round,
            "joined": list(self.joined),
            "tried": list(self.tried),
        }

    @classmethod
    def from_json(cls, state: EvolutionState) -> Evolution:
        return cls(
            number=state["number"],
            parents=tuple(Candidate.from_json(parent) for parent in state["parents"]),
            parent_weights=dict(state["parent_weights"]),
            round=state["round"],
            joined=list(state["joined"]),
            tried=list(state["tried"]),
        )


class Evolver:
    """Run the parts of an evolution on a population and a replay buffer.

    `rollouts` counts the rollouts of verification, outside training. `history` maps the text of every
    instruction to its latest score.
    """

    def __init__(self, context: Context, population: Population, buffer: ReplayBuffer) -> None:
        self._context = context
        self._settings = context.settings.section(InspoSettings)
        self._population = population
        self._buffer = buffer
        self.rollouts = 0
        self.history: dict[str, float] = {}
        self._evaluator: tuple[PolicyVersion, Evaluator] | None = None

    @property
    def size(self) -> int:
        """The number of instructions in the population."""
        return len(self._population)

    def begin(self, number: int) -> Evolution:
        """Choose the parents of this evolution (line 17)."""
        parents = tuple(self._population.parents())
        weights = {parent.id: self._population.weight(parent.id) for parent in parents}
        return Evolution(number, parents, weights)

    def wants_more(self, evolution: Evolution) -> bool:
        """Check that there is room and a round left (line 18, made to end)."""
        return evolution.round < self._settings.rounds and self._room(evolution) > 0

    def request(self, evolution: Evolution, policy: Policy) -> ProposalRequest | None:
        """Pick a parent and failures for the next round (line 19); return None if nothing has failed."""
        counters = (evolution.number, evolution.round)
        failures = self._buffer.failures(
            self._settings.failures_per_reflection, self._rng("failures", *counters)
        )
        if not failures:
            return None
        chosen = self._rng("parent", *counters).integers(len(evolution.parents))
        return ProposalRequest(
            "instruction",
            (evolution.parents[int(chosen)],),
            tuple(
                Trajectory.of(policy.question(one.question_id), one.completion, one.reward)
                for one in failures
            ),
            proposer=self._settings.proposer,
            count=self._settings.candidates_per_call,
            history=self._best_known(),
        )

    def gated(
        self,
        evolution: Evolution,
        request: ProposalRequest,
        proposals: Sequence[Proposal] | None,
        policy: Policy,
    ) -> tuple[Candidate, ...]:
        """Return the candidates that passed the gates (line 20). Raises ProposerUnavailable."""
        questions = self._questions(evolution)
        known = {member.text for member in self._population.members} | set(evolution.tried)
        source = CandidateSource(self._context, self._leak_guard(request, questions, policy))
        (children,) = source.judge([request], proposals, [known])
        evolution.round += 1
        evolution.tried += [child.text for child in children]
        return children

    def try_now(
        self,
        evolution: Evolution,
        parent: Candidate,
        children: Sequence[Candidate],
        policy: Policy,
    ) -> list[Trial]:
        """Roll out parent and children on the same questions, outside training (line 21)."""
        if not children:
            return []
        rows = self.roll_out([parent, *children], self._questions(evolution), policy)
        return [
            Trial.paired(parent, child, rows[0], row)
            for child, row in zip(children, rows[1:], strict=True)
        ]

    def judge(self, evolution: Evolution, parent: Candidate, trials: Sequence[Trial]) -> None:
        """Let the children that `coevo_verify` accepts join, best first (lines 21 to 23)."""
        verdicts = verify(self._context, "inspo", trials)
        for trial in trials:
            if trial.question_ids:
                self.remember(trial.child, sum(trial.child_rewards) / len(trial.child_rewards))
        joining = [
            (trial.child, trial.gain) for trial, ok in zip(trials, verdicts, strict=True) if ok
        ]
        joining.sort(key=lambda entry: -entry[1])
        self._renew(evolution, parent, joining[: self._room(evolution)])

    def let_in(
        self, evolution: Evolution, parent: Candidate, children: Sequence[Candidate]
    ) -> None:
        """Let children join without verification while there is room (line 23)."""
        room = self._room(evolution)
        self._renew(evolution, parent, [(child, 0.0) for child in children[:room]])

    def roll_out(
        self, candidates: Sequence[Candidate], questions: Sequence[str], policy: Policy
    ) -> list[list[Rollout]]:
        """Roll out every candidate on every question in one batch; return one row per candidate.

        Rollouts already made under the same weights are reused.
        """
        version = self._context.policy_version
        if self._evaluator is None or self._evaluator[0] != version:
            placement = self._context.settings.placement.build()
            self._evaluator = version, Evaluator(policy, placement)
        evaluator, before = self._evaluator[1], self._evaluator[1].rollouts
        jobs = [(candidate, question) for candidate in candidates for question in questions]
        rollouts = evaluator.evaluate(jobs, Sampling())
        self.rollouts += evaluator.rollouts - before
        size = len(questions)
        return [rollouts[place : place + size] for place in range(0, len(rollouts), size)]

    def remember(self, instruction: Candidate, score: float) -> None:
        """Record the latest score of an instruction."""
        self.history.pop(instruction.text, None)
        self.history[instruction.text] = score
        while len(self.history) > _REMEMBERED:
            del self.history[next(iter(self.history))]

    def _best_known(self) -> tuple[tuple[str, float], ...]:
        ranked = sorted(self.history.items(), key=lambda entry: -entry[1])
        return tuple(ranked[:_SHOWN])

    def _leak_guard(
        self, request: ProposalRequest, questions: Sequence[str], policy: Policy
    ) -> LeakGuard:
        """Guard the questions that the proposer saw and those that candidates are verified on."""
        shown = [
            Question("", failure.question, failure.ground_truth) for failure in request.failures
        ]
        asked = [policy.question(question_id) for question_id in questions]
        return leak_guard([*shown, *asked], self._context.settings.gates)

    def _questions(self, evolution: Evolution) -> list[str]:
        """`D_B` of this evolution."""
        rng = self._rng("questions", evolution.number)
        return self._buffer.questions(self._settings.verify_size, rng)

    def _renew(
        self, evolution: Evolution, parent: Candidate, joining: Sequence[tuple[Candidate, float]]
    ) -> None:
        """Make the parents and the children that joined the new population (line 23)."""
        removed: list[Candidate] = []
        known = parent.id in self._population  # training may have pruned it in the meantime
        parent_weight = (
            self._population.weight(parent.id) if known else evolution.parent_weights[parent.id]
        )
        if self._settings.prune:
            removed = self._population.keep_only([*self._kept(evolution), *evolution.joined])
        for child, gain in joining:
            # A plugin may accept a child that was not measured at all.
            measured = gain if math.isfinite(gain) else 0.0
            prior = parent_weight + measured if self._settings.child_weight == "verified" else 0.0
            self._population.add(child, prior)
            evolution.joined.append(child.id)
        added = [child for child, _ in joining]
        if added or removed:
            self._context.notify(
                hookspecs.coevo_after_population_changed,
                population=self._population.members,
                added=added,
                removed=removed,
            )

    def _kept(self, evolution: Evolution) -> list[str]:
        """Return the ids of the parents; of the best others if training has pruned all parents since."""
        kept = [parent.id for parent in evolution.parents if parent.id in self._population]
        return kept or [parent.id for parent in self._population.parents()]

    def _room(self, evolution: Evolution) -> int:
        if not self._settings.prune:
            return self._settings.population_size - len(self._population)
        joined = [name for name in evolution.joined if name in self._population]
        return self._settings.population_size - len(self._kept(evolution)) - len(joined)

    def _rng(self, purpose: str, *counters: int) -> np.random.Generator:
        return counter_rng(self._context.settings.seed, f"inspo/{purpose}", *counters)
