"""A round of an evolution whose reply is under way, and its place in the state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prompt_coevo.algorithms.inspo.evolution import Evolution
from prompt_coevo.candidates.asked import Asked, Propose
from prompt_coevo.proposals import ProposalRequest


@dataclass(frozen=True)
class InFlight:
    """An evolution and what was asked for it."""

    evolution: Evolution
    asked: Asked

    @property
    def request(self) -> ProposalRequest:
        return self.asked.requests[0]

    def to_json(self) -> dict[str, Any]:
        return {"evolution": self.evolution.to_json(), "asked": self.asked.to_json()}

    @classmethod
    def from_json(cls, state: Mapping[str, Any], propose: Propose) -> InFlight:
        asked = Asked.from_json(state["asked"], propose)
        return cls(Evolution.from_json(state["evolution"]), asked)
