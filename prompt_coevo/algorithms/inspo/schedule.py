"""Decide when evolutions happen: within one step, or over several while reflection runs behind training."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypedDict

from prompt_coevo.algorithms.inspo.evolution import Evolution, EvolutionState, Evolver
from prompt_coevo.algorithms.inspo.settings import InspoSettings
from prompt_coevo.candidates.background import Asked, AskedState, Propose
from prompt_coevo.candidates.source import ProposerUnavailable, propose
from prompt_coevo.context import Context
from prompt_coevo.errors import CoevoError
from prompt_coevo.markers import PROJECT
from prompt_coevo.policy import Policy
from prompt_coevo.proposals import Proposal, ProposalRequest

logger = logging.getLogger(PROJECT)


class InFlightState(TypedDict):
    """The saved `InFlight`."""

    evolution: EvolutionState
    asked: AskedState


class ScheduleState(TypedDict):
    """The saved `EvolutionSchedule`."""

    evolutions: int
    in_flight: InFlightState | None


@dataclass(frozen=True)
class InFlight:
    """A round of an evolution whose reply is pending; saved in the state."""

    evolution: Evolution
    asked: Asked

    @property
    def request(self) -> ProposalRequest:
        return self.asked.requests[0]

    def to_json(self) -> InFlightState:
        return {"evolution": self.evolution.to_json(), "asked": self.asked.to_json()}

    @classmethod
    def from_json(cls, state: InFlightState, propose: Propose) -> InFlight:
        asked = Asked.from_json(state["asked"], propose)
        return cls(Evolution.from_json(state["evolution"]), asked)


class EvolutionSchedule:
    """Start evolutions at their steps (INSPO Algorithm 1, line 16) and use replies when they are due.

    `evolutions` counts those started. An error in an evolution ends it, is journaled, and leaves the
    population as it is.
    """

    def __init__(self, context: Context, evolver: Evolver) -> None:
        self._context = context
        self._settings = context.settings.section(InspoSettings)
        self._evolver = evolver
        self._flight: InFlight | None = None
        self.evolutions = 0

    def at_step(self, step: int, policy: Policy) -> None:
        """Use a pending reply and start an evolution, whichever is due at this step."""
        on_time = step % self._settings.evolve_every == 0
        online = self._settings.evolution == "online"
        due = online and on_time and step < self._settings.evolve_until
        if self._flight is not None and step >= self._flight.asked.use_at:
            self._use_reply(step, policy, not due and self._may_request_round(step))
        if not due:
            return
        self.drop("the next evolution begins")
        evolution = self._begin()
        if evolution is not None:
            if self._settings.reflection == "overlapped":
                self._request_round(step, evolution, policy)
            else:
                self._evolve(evolution, policy)

    def evolve(self, policy: Policy) -> None:
        """Run a whole evolution (lines 17 to 23) now."""
        evolution = self._begin()
        if evolution is not None:
            self._evolve(evolution, policy)

    def drop(self, reason: str) -> None:
        """Drop the pending reply, if any."""
        if self._flight is not None:
            self._flight = None
            self._context.note("reflection_dropped", reason=reason)

    def to_json(self) -> ScheduleState:
        return {
            "evolutions": self.evolutions,
            "in_flight": self._flight.to_json() if self._flight else None,
        }

    def load(self, state: ScheduleState) -> None:
        self.evolutions = state["evolutions"]
        if state["in_flight"]:
            ask = partial(propose, self._context)
            self._flight = InFlight.from_json(state["in_flight"], ask)

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

    def _may_request_round(self, step: int) -> bool:
        """Check that a reply requested at this step would arrive in time to be used."""
        return step + self._overlap < self._settings.evolve_until

    def _evolve(self, evolution: Evolution, policy: Policy) -> None:
        """Generate and verify round by round until the evolution is complete or a round fails."""
        while self._evolver.wants_more(evolution):
            request = self._request(evolution, policy)
            if request is None:
                return
            proposals = propose(self._context, [request])
            if not self._take(evolution, request, proposals, policy):
                return

    def _request_round(self, step: int, evolution: Evolution, policy: Policy) -> None:
        """Request the next round's candidates in the background."""
        request = self._request(evolution, policy)
        if request is None:
            return
        ask = partial(propose, self._context)
        self._flight = InFlight(evolution, Asked([request], step + self._overlap, ask))

    def _use_reply(self, step: int, policy: Policy, another_round: bool) -> None:
        """Use the reply requested `overlap_steps` ago; wait for it if it is late."""
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
        if another_round and worked and self._evolver.wants_more(flight.evolution):
            self._request_round(step, flight.evolution, policy)

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
        """Gate and verify a round's proposals and let the best join. Return False if that failed."""
        parent = request.parent
        try:
            children = self._evolver.gated(evolution, request, proposals, policy)
            if self._settings.verify == "off":
                self._evolver.let_in(evolution, parent, children)
            else:
                trials = self._evolver.try_now(evolution, parent, children, policy)
                self._evolver.judge(evolution, parent, trials)
        except CoevoError:
            raise  # the trainer cannot continue
        except ProposerUnavailable as error:
            self.skip(str(error))
            return False
        except Exception as error:
            self.skip(f"the verification failed: {type(error).__name__}: {error}")
            return False
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
        """Log and journal that an evolution ends early or does not begin."""
        logger.warning("an evolution of the instructions ends early: %s", reason)
        self._context.note("evolution_skipped", evolution=self.evolutions, reason=reason)
