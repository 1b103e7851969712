"""Ask for candidates in the background while training continues, and save pending requests in the state."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias, TypedDict

from pydantic import TypeAdapter

from prompt_coevo.lines import JSON
from prompt_coevo.proposals import Proposal, ProposalRequest
from prompt_coevo.settings.reflection import ReflectionSettings
from prompt_coevo.threads import done_with, in_thread

_REQUESTS: TypeAdapter[list[ProposalRequest]] = TypeAdapter(list[ProposalRequest])
_PROPOSALS: TypeAdapter[list[Proposal]] = TypeAdapter(list[Proposal])

_GRACE_S: Final = 1.0  # let the reflection model's own time limit come first: its error says more

Answer: TypeAlias = Sequence[Proposal] | None
Propose: TypeAlias = Callable[[Sequence[ProposalRequest]], Answer]


class AskedState(TypedDict):
    """The saved `Asked`: its requests, and the proposals if they are there."""

    requests: list[dict[str, JSON]]
    use_at: int
    answer: list[dict[str, JSON]] | None


class Asked:
    """Requests whose answer is used at step `use_at`, never earlier; usually made in the background.

    If the answer is there when the state is saved, it becomes part of the state. Otherwise a resumed run
    asks again and gets the replies that the journal has received in the meantime.
    """

    def __init__(
        self,
        requests: Sequence[ProposalRequest],
        use_at: int,
        propose: Propose,
        *,
        in_background: bool = True,
    ) -> None:
        """Start the requests, on a new thread or on this one."""
        given = self.requests = tuple(requests)
        self.use_at = use_at
        self._started = time.monotonic()
        self._ended: float | None = None
        if in_background:
            self._reply = in_thread(lambda: _guarded(propose, given))
        else:
            self._reply = done_with(propose(given))
        self._reply.add_done_callback(self._stop_clock)

    @property
    def done(self) -> bool:
        return self._reply.done()

    @property
    def seconds(self) -> float:
        """Seconds that the answer took, or has taken so far."""
        return (self._ended or time.monotonic()) - self._started

    def answer(self, within: float) -> Answer:
        """Return the proposals; wait for them until `within` seconds after the requests.

        Raises TimeoutError, or the error that the proposer raised.
        """
        try:
            return self._reply.result(max(0.0, self._started + within - time.monotonic()))
        except TimeoutError:
            if self._reply.done():  # it arrived just now, or the proposer itself timed out
                return self._reply.result()
            raise TimeoutError(f"there was no reply within {within:g} s") from None

    def answer_in_time(self, reflection: ReflectionSettings) -> Answer:
        """Return the answer, with the time limit of the reflection model for so many requests."""
        turns = math.ceil(len(self.requests) / reflection.calls_at_once)
        return self.answer(turns * reflection.total_timeout_s + _GRACE_S)

    def to_json(self) -> AskedState:
        answer = None
        if self.done:
            with suppress(Exception):  # a resumed run asks again
                if (proposals := self.answer(0.0)) is not None:
                    answer = _as_it_will_be_read(proposals)
        requests = _REQUESTS.dump_python(list(self.requests), mode="json")
        return {"requests": requests, "use_at": self.use_at, "answer": answer}

    @classmethod
    def from_json(cls, state: AskedState, propose: Propose, *, in_background: bool = True) -> Asked:
        """Restore what `to_json` returned; call `propose` again if there was no answer yet."""
        requests = _REQUESTS.validate_python(state["requests"])
        if state["answer"] is None:
            return cls(requests, state["use_at"], propose, in_background=in_background)
        written = _PROPOSALS.validate_python(state["answer"])
        return cls(requests, state["use_at"], lambda _: written, in_background=False)

    def _stop_clock(self, _: object) -> None:
        self._ended = time.monotonic()


def _as_it_will_be_read(proposals: Sequence[Proposal]) -> list[dict[str, JSON]]:
    """Return the proposals as JSON values. Raises ValueError if they cannot be saved in a state."""
    values = _PROPOSALS.dump_python(list(proposals), mode="json", warnings=False)
    written: list[dict[str, JSON]] = json.loads(json.dumps(values, allow_nan=False))
    _PROPOSALS.validate_python(written)
    return written


def _guarded(propose: Propose, requests: Sequence[ProposalRequest]) -> Answer:
    """Call `propose`, but turn SystemExit and the like into RuntimeError: it must not end training."""
    try:
        return propose(requests)
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
