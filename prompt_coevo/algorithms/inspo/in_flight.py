"""A proposal that is being written while training goes on, and its place in the state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic import TypeAdapter

from prompt_coevo.algorithms.inspo.evolution import Evolution
from prompt_coevo.proposals import Proposal, ProposalRequest
from prompt_coevo.threads import Background

_REQUEST: TypeAdapter[ProposalRequest] = TypeAdapter(ProposalRequest)
_PROPOSALS: TypeAdapter[list[Proposal]] = TypeAdapter(list[Proposal])

Propose = Callable[[Sequence[ProposalRequest]], Sequence[Proposal] | None]


class InFlight:
    """A request of an evolution, asked for in the background and used at step `use_at`, not earlier.

    An answer that is there when the state is saved is part of it; else a resumed run asks again, and
    gets the reply from the journal if one was written there meanwhile.
    """

    def __init__(
        self, evolution: Evolution, request: ProposalRequest, use_at: int, propose: Propose
    ) -> None:
        self.evolution = evolution
        self.request = request
        self.use_at = use_at
        self._call = Background(lambda: propose([request]))

    @property
    def seconds(self) -> float:
        """How long the answer took, or has taken so far."""
        return self._call.seconds

    def answer(self, within: float) -> Sequence[Proposal] | None:
        """What was proposed; waits until `within` seconds after the request. Raises TimeoutError."""
        return self._call.result(within)

    def to_json(self) -> dict[str, Any]:
        answer = None
        if self._call.done:
            with suppress(Exception):  # it failed; a resumed run may have more luck
                if (proposals := self.answer(0.0)) is not None:
                    answer = _PROPOSALS.dump_python(list(proposals), mode="json")
        return {
            "evolution": self.evolution.to_json(),
            "request": _REQUEST.dump_python(self.request, mode="json"),
            "use_at": self.use_at,
            "answer": answer,
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any], propose: Propose) -> InFlight:
        answer = state["answer"]
        if answer is not None:
            written = _PROPOSALS.validate_python(answer)
            propose = lambda requests: written  # noqa: E731
        request = _REQUEST.validate_python(state["request"])
        return cls(Evolution.from_json(state["evolution"]), request, state["use_at"], propose)
