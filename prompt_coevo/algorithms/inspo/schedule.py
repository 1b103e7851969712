"""When evolutions happen: at their step, or with their reflection in the background, or with candidates
on trial for a while.

With `inspo.verify = "in_training"` one round is on trial at a time, and the next one begins with its
verdict. An evolution that comes due ends the trial: its verdict falls first, by the evidence that there
is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from prompt_coevo.algorithms.inspo.evolution import Evolution, Evolver
from prompt_coevo.algorithms.inspo.in_flight import InFlight
from prompt_coevo.algorithms.inspo.in_training import TrainingTrial
from prompt_coevo.algorithms.inspo.known_means import KnownMeans
from prompt_coevo.algorithms.inspo.settings import TRIAL_SHARE, InspoSettings
from prompt_coevo.candidates.asked import Asked
from prompt_coevo.candidates.source import ProposerUnavailable, propose
from prompt_coevo.context import Context
from prompt_coevo.errors import CoevoError
from prompt_coevo.markers import PROJECT
from prompt_coevo.policy import Policy
from prompt_coevo.proposals import Proposal, ProposalRequest
from prompt_coevo.types import Candidate, Group

logger = logging.getLogger(PROJECT)


class EvolutionSchedule:
    """INSPO Algorithm 1, line 16, and what happens while a reply is under way or candidates are on trial.

    `evolutions` counts those begun. What goes wrong in an evolution ends it, is noted in the journal,
    and leaves the population as it is.
    """

    def __init__(self, context: Context, evolver: Evolver) -> None:
        self._context = context
        self._settings = context.settings.section(InspoSettings)
        self._evolver = evolver
        self._flight: InFlight | None = None
        self._trial: TrainingTrial | None = None
        self._known = KnownMeans()
        self.evolutions = 0

    def plan(self, round: int, group: int) -> Candidate | None:
        """The instruction that this group tries; None if it is one for the population."""
        if self._trial is None:
            return None
        return self._trial.plan(self._context.settings.seed, round, group)

    def observe(self, groups: Sequence[Group]) -> None:
        """Groups that came back; some may be evidence."""
        if self._trial is not None:
            self._trial.observe(groups, self._known)
        if self._settings.verify == "in_training":
            self._known.observe(groups)

    def tries(self, instruction: Candidate) -> bool:
        """Whether this is a candidate without a verdict."""
        return self._trial is not None and self._trial.tries(instruction)

    def at_step(self, step: int, policy: Policy) -> None:
        """Give a verdict, use a reply, and begin the evolution, if it is time for them."""
        on_time = step % self._settings.evolve_every == 0
        online = self._settings.evolution == "online"
        due = online and on_time and step < self._settings.evolve_until
        self._known.commit()
        another_round = not due and self._may_begin_round(step)
        if self._trial is not None:
            self._trial.updates_left -= 1
            if due or not self._trial.updates_left or self._trial.has(self._settings.verify_size):
                self._give_verdict(step, policy, another_round)
        if self._flight is not None and step >= self._flight.asked.use_at:
            self._use_reply(step, policy, another_round)
        if not due:
            return
        self.drop("the next evolution begins")
        evolution = self._begin()
        if evolution is not None:
            self._begin_round(step, evolution, policy)

    def evolve(self, policy: Policy) -> None:
        """A whole evolution (lines 17 to 23), here and now."""
        evolution = self._begin()
        if evolution is not None:
            self._evolve(evolution, policy)

    def drop(self, reason: str) -> None:
        """Forget a reply that is under way, and candidates on trial."""
        if self._flight is not None:
            self._flight = None
            self._context.note("reflection_dropped", reason=reason)
        if self._trial is not None:
            self._trial = None
            self._context.note("trial_dropped", reason=reason)

    def to_json(self) -> dict[str, Any]:
        return {
            "evolutions": self.evolutions,
            "in_flight": self._flight.to_json() if self._flight else None,
            "trial": self._trial.to_json() if self._trial else None,
            "known_means": self._known.to_json(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self.evolutions = state["evolutions"]
        if state["in_flight"]:
            ask = partial(propose, self._context)
            self._flight = InFlight.from_json(state["in_flight"], ask)
        if "trial" in state:  # states of earlier versions have none
            self._known.load(state["known_means"])
            if state["trial"]:
                self._trial = TrainingTrial.from_json(state["trial"])

    @property
    def _overlap(self) -> int:
        return self._settings.overlap_steps or 1

    def _begin(self) -> Evolution | None:
        evolution = self._evolver.begin(self.evolutions)
        self.evolutions += 1
        if self._evolver.wants_more(evolution):
            return evolution
        self.skip("the population is full and nothing is pruned")
        return None

    def _may_begin_round(self, step: int) -> bool:
        """Whether what an evolution asks for at this step can still be used."""
        settings = self._settings
        overlapped = settings.reflection == "overlapped"
        used_at = step + self._overlap if overlapped else step
        next_due = (step // settings.evolve_every + 1) * settings.evolve_every
        # With the next evolution a trial would have its verdict at the step at which it begins.
        in_time = used_at < next_due or next_due >= settings.evolve_until
        return used_at < settings.evolve_until and (settings.verify != "in_training" or in_time)

    def _begin_round(self, step: int, evolution: Evolution, policy: Policy) -> None:
        if self._settings.reflection == "overlapped":
            self._request_round(step, evolution, policy)
        else:
            self._evolve(evolution, policy)

    def _evolve(self, evolution: Evolution, policy: Policy) -> None:
        """Rounds, until there is nothing left to do for this evolution or candidates are on trial."""
        while self._trial is None and self._evolver.wants_more(evolution):
            request = self._request(evolution, policy)
            if request is None:
                return
            proposals = propose(self._context, [request])
            if not self._take(evolution, request, proposals, policy):
                return

    def _request_round(self, step: int, evolution: Evolution, policy: Policy) -> None:
        """Ask for the next round's candidates in the background."""
        request = self._request(evolution, policy)
        if request is None:
            return
        ask = partial(propose, self._context)
        self._flight = InFlight(
            evolution, Asked.in_background([request], step + self._overlap, ask)
        )

    def _use_reply(self, step: int, policy: Policy, another_round: bool) -> None:
        """Use what was asked for `overlap_steps` ago; wait for it if it is late."""
        assert self._flight is not None
        flight, self._flight = self._flight, None
        asked = flight.asked
        took_so_far = asked.seconds
        try:
            proposals = asked.answer_in_time(self._context.settings.reflection)
        except TimeoutError as error:
            self.skip(str(error))
            return
        finally:
            self._context.note(
                "reflection_awaited",
                took_s=asked.seconds,
                waited_s=max(0.0, asked.seconds - took_so_far),
            )
        worked = self._take(flight.evolution, flight.request, proposals, policy)
        if another_round and worked and self._trial is None:
            self._go_on(step, flight.evolution, policy)

    def _give_verdict(self, step: int, policy: Policy, another_round: bool) -> None:
        """The trial is over: who joins by what there is to judge by."""
        assert self._trial is not None
        trial, self._trial = self._trial, None
        judge = partial(self._evolver.judge, trial.evolution, trial.parent)
        if self._done(trial.evolution, lambda: judge(trial.results())) and another_round:
            self._go_on(step, trial.evolution, policy)

    def _go_on(self, step: int, evolution: Evolution, policy: Policy) -> None:
        if self._evolver.wants_more(evolution):
            self._begin_round(step, evolution, policy)

    def _request(self, evolution: Evolution, policy: Policy) -> ProposalRequest | None:
        request = self._evolver.request(evolution, policy)
        if request is None:
            self.skip("the replay buffer holds no failures to reflect on")
        return request

    def _take(
        self,
        evolution: Evolution,
        request: ProposalRequest,
        proposals: Sequence[Proposal] | None,
        policy: Policy,
    ) -> bool:
        """Use the proposals of one round; whether that worked."""
        parent = request.parent

        def use() -> None:
            children = self._evolver.gated(evolution, request, proposals, policy)
            if self._settings.verify == "off":
                self._evolver.let_in(evolution, parent, children)
            elif self._settings.verify == "in_training" and children:
                self._begin_trial(evolution, parent, children)
            else:
                trials = self._evolver.try_now(evolution, parent, children, policy)
                self._evolver.judge(evolution, parent, trials)

        return self._done(evolution, use)

    def _begin_trial(
        self, evolution: Evolution, parent: Candidate, children: Sequence[Candidate]
    ) -> None:
        share = self._settings.trial_share or TRIAL_SHARE
        updates = self._settings.trial_steps or self._settings.evolve_every
        self._trial = TrainingTrial.begin(evolution, parent, children, share, updates)
        self._context.note(
            "trial_begun",
            parent=parent.id,
            candidates=[child.id for child in children],
            block=self._trial.block,
        )

    def _done(self, evolution: Evolution, work: Callable[[], None]) -> bool:
        """Do the work of a round; whether that went well."""
        try:
            work()
        except CoevoError:
            raise  # the host cannot go on
        except ProposerUnavailable as error:
            self.skip(str(error))
            return False
        except Exception as error:
            self.skip(f"the verification failed: {type(error).__name__}: {error}")
            return False
        if self._trial is None:
            self._tell_size(evolution)
        return True

    def _tell_size(self, evolution: Evolution) -> None:
        size, full = self._evolver.size, self._settings.population_size
        logger.info(
            "evolution %d, round %d: %d of %d instructions",
            evolution.number + 1,
            evolution.round,
            size,
            full,
        )
        if not self._evolver.wants_more(evolution) and size < full:
            self._context.note("population_not_full", size=size, population_size=full)

    def skip(self, reason: str) -> None:
        """Say that an evolution ends early, or does not begin."""
        logger.warning("an evolution of the instructions ends early: %s", reason)
        self._context.note("evolution_skipped", evolution=self.evolutions, reason=reason)
