"""Compare system prompts on the same questions while the policy trains: E-SPL (arXiv 2602.14697).

In every round a few prompts of a pool share each group's rollouts. Their value is a rating (`ratings.py`)
that changes with every question on which they did not do equally well. After a step the best prompt of the
round has a child by reflection on its failures, and now and then one together with another prompt
(`evolution.py`). Children join untested; the ratings sort them out.

Deviations, see the README: a match is a question, not a round; the pool drops the surely weak, not the old;
the group's baseline is the host's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from prompt_coevo import Candidate, MemberPlan, Policy, hookimpl, hookspecs
from prompt_coevo.context import Context
from prompt_coevo.errors import SettingsError
from prompt_coevo.rng import counter_rng
from prompt_coevo.types import Group
from prompt_coevo_espl.evidence import Evidence
from prompt_coevo_espl.evolution import Breeder
from prompt_coevo_espl.pool import Pool
from prompt_coevo_espl.ratings import Rating, of_child
from prompt_coevo_espl.settings import EsplSettings

BEST_FILE = "best_instruction.txt"


class Espl:
    """The plugin. Registered under the name `espl`."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settings = context.settings.section(EsplSettings)
        context.proposer(self._settings.mutation)  # a missing proposer fails before training
        if self._settings.crossover_share:
            context.proposer(self._settings.crossover)
        self._pool = Pool(_first(context), self._settings.population_size)
        self._evidence = Evidence()
        self._breeder = Breeder(context, self._pool, self._evidence)
        self._compared: tuple[int, list[Candidate]] | None = None
        self._new_round = False
        self._published: str | None = None
        self._counts = {"steps": 0, "evolutions": 0, "children": 0, "matches": 0, "draws": 0}

    @hookimpl
    def coevo_plan_group(self, round: int, group: int, group_size: int) -> Sequence[MemberPlan]:
        """Divide the group among this round's prompts; the first of them changes with the group."""
        if self._compared is None or self._compared[0] != round:
            self._compared = round, self._chosen(round)
        prompts = self._compared[1]
        return [
            MemberPlan(instruction=prompts[(group + member) % len(prompts)])
            for member in range(group_size)
        ]

    def _chosen(self, round: int) -> list[Candidate]:
        if self._settings.selection == "bounds":
            return self._pool.by_bounds(self._settings.at_once)
        rng = counter_rng(self._context.settings.seed, "espl/selection", round)
        return self._pool.by_draw(self._settings.at_once, rng)

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        self._new_round = True
        tie = self._settings.tie
        of_questions = [
            self._evidence.add(group, self._settings.solved_at, tie) for group in groups
        ]
        matches = of_questions if self._settings.matches == "question" else [_means(of_questions)]
        for scores in matches:
            said = self._pool.match(scores, tie)
            self._counts["matches" if said else "draws"] += 1
        self._publish()

    @hookimpl
    def coevo_step_end(self, policy: Policy, last: bool) -> None:
        """Count a step; an update on an old round is none."""
        if not self._new_round:
            return
        self._new_round = False
        self._counts["steps"] += 1
        step, until = self._counts["steps"], self._settings.evolve_until
        if until is not None and step >= until:
            self._evidence.clear()  # it is no longer needed
        elif not last and step % self._settings.evolve_every == 0:
            self._evolve(policy)

    def _evolve(self, policy: Policy) -> None:
        children = self._breeder.children(self._counts["evolutions"], policy)
        self._counts["evolutions"] += 1
        self._evidence.clear()
        # Before any removal: the first child may displace the second child's parent.
        rated = [(child, self._rating_of(child)) for child in children]
        for child, rating in rated:
            removed = self._pool.add(child, rating)
            self._counts["children"] += 1
            self._context.notify(
                hookspecs.coevo_after_population_changed,
                population=self._pool.members,
                added=[child],
                removed=removed,
            )
        self._publish()

    def _rating_of(self, child: Candidate) -> Rating:
        parents = [self._pool.rating(name) for name in child.parents]
        return of_child(parents, self._settings.child_sigma)

    # The result

    @hookimpl
    def coevo_best_instruction(self) -> Candidate:
        return self._pool.best

    @hookimpl
    def coevo_evaluation_instruction(self) -> Candidate | None:
        return self._pool.best if self._settings.validation_instruction == "best" else None

    def _publish(self) -> None:
        best = self._pool.best
        if best.id != self._published:
            self._published = best.id
            self._context.publish(BEST_FILE, best.text)

    # State and numbers

    @hookimpl
    def coevo_state(self) -> dict[str, Any]:
        return {
            "pool": self._pool.to_json(),
            "evidence": self._evidence.to_json(),
            "new_round": self._new_round,
            "counts": dict(self._counts),
        }

    @hookimpl
    def coevo_load_state(self, state: dict[str, Any]) -> None:
        self._pool.load(state["pool"])
        self._evidence.load(state["evidence"])
        self._new_round = state["new_round"]
        self._counts = dict(state["counts"])
        self._compared = None

    @hookimpl
    def coevo_metrics(self) -> dict[str, float]:
        best = self._pool.rating(self._pool.best.id)
        return {
            "espl_population": float(len(self._pool)),
            "espl_best_mu": best.mu,
            "espl_best_sigma": best.sigma,
            **{f"espl_{name}": float(count) for name, count in self._counts.items()},
        }


def _first(context: Context) -> Candidate:
    """Return the prompt to start from. Raises SettingsError if there is none."""
    text = context.settings.section(EsplSettings).instruction
    if text is None and context.settings.placement.instruction == "system":
        text = context.system_message()
    if text is None:
        raise SettingsError(
            "there is no instruction to start from: set plugins.espl.instruction, or give all prompts of "
            "the dataset the same system message"
        )
    return Candidate(text, "instruction")


def _means(of_questions: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return every prompt's mean over the questions that it was used on."""
    scores: dict[str, list[float]] = {}
    for of_question in of_questions:
        for name, score in of_question.items():
            scores.setdefault(name, []).append(score)
    return {name: math.fsum(values) / len(values) for name, values in scores.items()}
