"""INSPO: Instruction-Policy Co-Evolution (arXiv 2512.01945), Algorithm 1.

Every group of rollouts runs under one instruction of a population, and its rewards measure that
instruction. The worse half is pruned from time to time. A reflection model sees failed trajectories and
writes new instructions, which rollouts of the current policy verify (`evolution.py`).

Deviations: `t` counts the weight updates that used a new generation round, so that every step adds
window entries; for weights after an evolution see `population.py`; an instruction search before or after
training (Fig. 3) runs as many evolutions as there would be during training, and instead of training's
rollouts it uses its own, on questions drawn anew for each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import fsum
from typing import TypedDict

from prompt_coevo import hookspecs
from prompt_coevo.algorithms.inspo.evolution import Evolver
from prompt_coevo.algorithms.inspo.first_instructions import (
    check_instructions,
    paraphrases,
    users_instructions,
)
from prompt_coevo.algorithms.inspo.population import Member, Population
from prompt_coevo.algorithms.inspo.replay import BufferState, Experience, ReplayBuffer
from prompt_coevo.algorithms.inspo.schedule import EvolutionSchedule, ScheduleState
from prompt_coevo.algorithms.inspo.settings import InspoSettings
from prompt_coevo.candidates.trials import Trial
from prompt_coevo.context import Context
from prompt_coevo.errors import CoevoError, HostError
from prompt_coevo.markers import hookimpl
from prompt_coevo.policy import Policy
from prompt_coevo.rng import counter_rng
from prompt_coevo.types import Candidate, Group, MemberPlan, Rollout, Summary, bring_texts

BEST_FILE = "best_instruction.txt"
_FIRST = ("user", "paraphrase")
_PAIRED_TAG = re.compile(r"<([A-Za-z][\w-]*)>(?=.*</\1>)", re.DOTALL)


class InspoState(TypedDict):
    """What a checkpoint holds of INSPO."""

    begun: bool
    step: int
    new_round: bool
    rewards: dict[str, list[float]]
    population: list[Member]
    buffer: BufferState
    history: list[tuple[str, float]]
    verify_rollouts: int
    unfit_rollouts: int
    schedule: ScheduleState
    joined: int


class Inspo:
    """The plugin, registered as `inspo`."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settings = context.settings.section(InspoSettings)
        first = users_instructions(context)
        for proposer in self._proposers:
            context.proposer(proposer)  # fail before training if one is missing
        self._population = Population(
            first,
            temperature=self._settings.selection_temperature,
            window=self._settings.window,
            parents=self._settings.parents,
            prune_unsampled=self._settings.prune_unsampled,
        )
        self._buffer = ReplayBuffer(solved_at=self._settings.solved_from)
        self._evolver = Evolver(context, self._population, self._buffer)
        self._schedule = EvolutionSchedule(context, self._evolver)
        self._begun = self._new_round = False
        self._step = self._unfit_rollouts = 0
        self._rewards: dict[str, list[float]] = {}
        self._best: Candidate = first[0]
        self._published: str | None = None
        self._joined = 0

    @property
    def _proposers(self) -> Iterator[str]:
        if self._settings.evolution != "off":
            yield self._settings.proposer
        if self._wants_paraphrases:
            yield "paraphrase"

    @property
    def _wants_paraphrases(self) -> bool:
        return self._settings.paraphrase and not self._settings.initial_population

    # Phase 1: policy optimization with dynamic instructions

    @hookimpl
    def coevo_questions_in_use(self) -> set[str]:
        return self._buffer.question_ids

    @hookimpl
    def coevo_train_begin(self, policy: Policy) -> None:
        """Build the initial population (line 2), and search before training if the settings ask for it."""
        self._buffer.keep_only(set(policy.question_ids()))  # the dataset may have lost rows
        if self._begun:
            return
        check_instructions(self._population.members, self._context)
        self._begun = True
        if self._wants_paraphrases:
            count = self._settings.population_size - len(self._population)
            for paraphrase in paraphrases(self._context, self._population.members[0], count):
                self._population.add(paraphrase)
        self._tell_changed(added=self._population.members)
        if self._settings.evolution == "before":
            self._search_offline(policy)

    @hookimpl
    def coevo_plan_group(self, round: int, group: int, group_size: int) -> Sequence[MemberPlan]:
        """Draw an instruction for the question (line 5, `I ~ p(. | W; P)`)."""
        if not self._begun:
            raise HostError("a round was planned before training began; call begin(policy) first")
        rng = counter_rng(self._context.settings.seed, "inspo/instruction", round, group)
        instruction = self._population.draw(rng.random())
        return [MemberPlan(instruction=instruction)] * group_size

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        """Collect rewards and failures (lines 7 and 15), but not of templated or unfit rollouts: they tell
        nothing about an instruction."""
        self._new_round = True
        experienced = []
        for rollout in (rollout for group in groups for rollout in group.rollouts):
            instruction = rollout.assignment.instruction
            if instruction is None or rollout.assignment.templated:
                continue
            if rollout.fit:
                self._rewards.setdefault(instruction.id, []).append(rollout.reward)
                experienced.append(rollout)
            else:
                self._unfit_rollouts += 1
        self._buffer.add(self._step + 1, self._experiences(experienced))

    @hookimpl
    def coevo_step_end(self, policy: Policy, last: bool) -> None:
        """Update weights, prune, then evolve (lines 9 to 24). An update on an old round is no step."""
        if self._new_round:
            self._new_round = False
            self._step += 1
            self._weigh()
            if self._settings.prune and self._step % self._settings.prune_every == 0:
                self._prune()
            if not last:
                self._schedule.at_step(self._step, policy)
                self._update_choice()

    def _weigh(self) -> None:
        """Add one window entry for every instruction that was sampled (line 9)."""
        # fsum is exact, so the result does not depend on the order of the rollouts.
        means = {name: fsum(rewards) / len(rewards) for name, rewards in self._rewards.items()}
        self._rewards = {}
        self._population.observe(means)
        weights = self._population.weights()
        self._context.note(
            "instruction_weights", inspo_step=self._step, means=means, weights=weights
        )
        for member in self._population.members:
            if self._population.seen(member.id):
                self._evolver.remember(member, weights[member.id])
        self._update_choice()

    def _prune(self) -> None:
        """Drop the worse half of the population (lines 10 to 13)."""
        removed = self._population.prune()
        if removed:
            self._tell_changed(removed=removed)

    # Phase 2: experience-driven instruction generation (`schedule.py`)

    @hookimpl(trylast=True)
    def coevo_verify(self, algorithm: str, trials: Sequence[Trial]) -> Sequence[bool] | None:
        """Accept the `top_n` children among those that do at least as well as their parent (line 21)."""
        if algorithm != "inspo":
            return None
        ranked = sorted(range(len(trials)), key=lambda place: -trials[place].gain)
        top = set(ranked[: self._settings.top_n])
        return [place in top and trial.gain >= 0 for place, trial in enumerate(trials)]

    @hookimpl
    def coevo_check_candidate(
        self, candidate: Candidate, parents: Sequence[Candidate]
    ) -> str | None:
        """Check that the candidate keeps the XML tags of its parents (a gate)."""
        if candidate.kind == "instruction":
            kept = set(_PAIRED_TAG.findall(candidate.text))
            needed = {tag for parent in parents for tag in _PAIRED_TAG.findall(parent.text)}
            for tag in sorted(needed - kept):
                return f"the required tag '<{tag}> ... </{tag}>' of its parent is missing"
        return None

    # Before or after training (Fig. 3)

    def _search_offline(self, policy: Policy) -> None:
        """Run as many evolutions as during training, against one policy; keep only the best instruction."""
        try:
            self._evolve_offline(policy)
        except CoevoError:
            raise  # the trainer cannot continue
        except Exception as error:
            self._schedule.skip(f"the rollouts failed: {type(error).__name__}: {error}")
        best = self._population.best() or self._population.members[0]
        self._tell_changed(removed=self._population.keep_only([best.id]))

    def _evolve_offline(self, policy: Policy) -> None:
        evolutions = range(
            self._settings.evolve_every, self._settings.evolve_until, self._settings.evolve_every
        )
        for number in range(len(evolutions)):
            self._score_all(policy, number)
            if self._settings.prune:
                self._prune()
            self._schedule.evolve(policy)
        self._score_all(policy, len(evolutions))

    def _score_all(self, policy: Policy, number: int) -> None:
        """Roll out every instruction on new questions, for window entries and failures to show."""
        ids = sorted(policy.question_ids())
        rng = counter_rng(self._context.settings.seed, "inspo/offline", number)
        questions = [
            ids[place] for place in rng.permutation(len(ids))[: self._settings.verify_size]
        ]
        rows = self._evolver.roll_out(self._population.members, questions, policy)
        experienced = []
        for rollout in (rollout for row in rows for rollout in row if rollout.fit):
            instruction = rollout.assignment.instruction
            assert instruction is not None
            self._rewards.setdefault(instruction.id, []).append(rollout.reward)
            experienced.append(rollout)
        self._buffer.add(-1 - number, self._experiences(experienced))
        self._weigh()

    def _experiences(self, rollouts: Sequence[Rollout]) -> list[Experience]:
        """Convert rollouts for the buffer, which needs the completions of failures only."""
        solved_at = self._settings.solved_from
        bring_texts(rollout for rollout in rollouts if rollout.reward < solved_at)
        return [
            Experience(
                rollout.assignment.question_id,
                rollout.completion if rollout.reward < solved_at else "",
                rollout.reward,
            )
            for rollout in rollouts
        ]

    # The result

    @hookimpl
    def coevo_best_instruction(self) -> Candidate:
        """Return `I* = argmax w_j` (line 26); the user's instruction until something is measured."""
        return self._best

    @hookimpl
    def coevo_evaluation_instruction(self) -> Candidate | None:
        return self._best if self._settings.validation_instruction == "best" else None

    @hookimpl
    def coevo_train_end(self, policy: Policy) -> None:
        """Search after training if the settings ask for it."""
        self._schedule.drop("training is over")
        if self._settings.evolution == "after":
            self._search_offline(policy)

    def _update_choice(self) -> None:
        """Choose the best instruction again, after weights or members have changed."""
        self._best = self._population.best() or self._population.members[0]
        if self._best.text != self._published:
            self._published = self._best.text
            self._context.publish(BEST_FILE, self._best.text)

    def _tell_changed(
        self, added: Sequence[Candidate] = (), removed: Sequence[Candidate] = ()
    ) -> None:
        self._update_choice()
        self._context.notify(
            hookspecs.coevo_after_population_changed,
            population=self._population.members,
            added=added,
            removed=removed,
        )

    @hookimpl
    def coevo_after_population_changed(self, added: Sequence[Candidate]) -> None:
        self._joined += sum(one.origin not in _FIRST for one in added)

    @hookimpl
    def coevo_summary(self) -> Summary:
        evolutions, size = self._schedule.evolutions, len(self._population)
        if self._settings.evolution == "off":
            return Summary(f"{size} instructions; inspo.evolution is off")
        if not evolutions and self._settings.evolution != "online":
            text = "no instruction ever evolved, because the search stopped before the first one"
            return Summary(text, for_nothing=True)
        if not evolutions:
            text = (
                f"no instruction ever evolved, because the run had {self._step} steps "
                f"(inspo.evolve_every = {self._settings.evolve_every})"
            )
            return Summary(text, for_nothing=True)
        text = f"{self._joined} new instructions joined in {evolutions} evolutions, {size} are left"
        return Summary(text, for_nothing=not self._joined)

    # State and numbers

    @hookimpl
    def coevo_state(self) -> InspoState:
        return {
            "begun": self._begun,
            "step": self._step,
            "new_round": self._new_round,
            "rewards": {name: list(rewards) for name, rewards in self._rewards.items()},
            "population": self._population.to_json(),
            "buffer": self._buffer.to_json(),
            "history": list(self._evolver.history.items()),  # a trainer may sort the keys of a dict
            "verify_rollouts": self._evolver.rollouts,
            "unfit_rollouts": self._unfit_rollouts,
            "schedule": self._schedule.to_json(),
            "joined": self._joined,
        }

    @hookimpl
    def coevo_load_state(self, state: InspoState) -> None:
        self._begun, self._step = state["begun"], state["step"]
        self._new_round = state["new_round"]
        self._rewards = {name: list(rewards) for name, rewards in state["rewards"].items()}
        self._population.load(state["population"])
        self._buffer.load(state["buffer"])
        self._evolver.history = dict(state["history"])
        self._evolver.rollouts = state["verify_rollouts"]
        self._unfit_rollouts = state["unfit_rollouts"]
        self._schedule.load(state["schedule"])
        self._joined = state["joined"]
        self._update_choice()

    @hookimpl
    def coevo_metrics(self) -> dict[str, float]:
        weights = [self._population.weight(member.id) for member in self._population.members]
        return {
            "population": float(len(weights)),
            "best_instruction_weight": self._population.weight(self._best.id),
            "mean_instruction_weight": sum(weights) / len(weights),
            "evolutions": float(self._schedule.evolutions),
            "verify_rollouts": float(self._evolver.rollouts),
            "unfit_rollouts": float(self._unfit_rollouts),
        }
