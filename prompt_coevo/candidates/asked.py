"""Candidates that are being written while training goes on, and their place in the state."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, TypeAlias

from pydantic import TypeAdapter

from prompt_coevo.proposals import Proposal, ProposalRequest
from prompt_coevo.settings.reflection import ReflectionSettings
from prompt_coevo.threads import Background, done_with, in_thread

_REQUESTS: TypeAdapter[list[ProposalRequest]] = TypeAdapter(list[ProposalRequest])
_PROPOSALS: TypeAdapter[list[Proposal]] = TypeAdapter(list[Proposal])

_GRACE_S: Final = 1.0  # the reflection model's own time limit comes first, and its error says more

Answer: TypeAlias = Sequence[Proposal] | None
Propose: TypeAlias = Callable[[Sequence[ProposalRequest]], Answer]


class Asked:
    """Requests whose answer is used at step `use_at` and not earlier, made in the background as a rule.

    An answer that is there when the state is saved is part of it; else a resumed run asks again, and
    gets the replies from the journal that were written there meanwhile.
    """

    def __init__(
        self, requests: Sequence[ProposalRequest], use_at: int, answer: Future[Answer]
    ) -> None:
        """For the two ways below."""
        self.requests = tuple(requests)
        self.use_at = use_at
        self._call = Background(answer)

    @classmethod
    def in_background(
        cls, requests: Sequence[ProposalRequest], use_at: int, propose: Propose
    ) -> Asked:
        """Ask now, on a thread of its own."""
        given = tuple(requests)
        return cls(given, use_at, in_thread(lambda: _guarded(propose, given)))

    @classmethod
    def answered(cls, requests: Sequence[ProposalRequest], use_at: int, answer: Answer) -> Asked:
        """What was proposed is known already."""
        return cls(requests, use_at, done_with(answer))

    @property
    def done(self) -> bool:
        return self._call.done

    @property
    def seconds(self) -> float:
        """How long the answer took, or has taken so far."""
        return self._call.seconds

    def answer(self, within: float) -> Answer:
        """What was proposed; waits until `within` seconds after the requests. Raises TimeoutError."""
        return self._call.result(within)

    def answer_in_time(self, reflection: ReflectionSettings) -> Answer:
        """As `answer`, within the time that the reflection model may take for so many requests."""
        turns = math.ceil(len(self.requests) / reflection.calls_at_once)
        return self.answer(turns * reflection.total_timeout_s + _GRACE_S)

    def to_json(self) -> dict[str, Any]:
        answer = None
        if self._call.done:
            with suppress(Exception):  # it failed; a resumed run may have more luck
                if (proposals := self.answer(0.0)) is not None:
                    answer = _as_it_will_be_read(proposals)
        requests = _REQUESTS.dump_python(list(self.requests), mode="json")
        return {"requests": requests, "use_at": self.use_at, "answer": answer}

    @classmethod
    def from_json(
        cls, state: Mapping[str, Any], propose: Propose, *, in_background: bool = True
    ) -> Asked:
        """What `to_json` gave; where there is no answer yet, `propose` is asked for it again."""
        requests = _REQUESTS.validate_python(state["requests"])
        if state["answer"] is not None:
            written = _PROPOSALS.validate_python(state["answer"])
            return cls.answered(requests, state["use_at"], written)
        if not in_background:
            return cls.answered(requests, state["use_at"], propose(requests))
        return cls.in_background(requests, state["use_at"], propose)


def _as_it_will_be_read(proposals: Sequence[Proposal]) -> Any:
    """The proposals as JSON values. Raises ValueError for such as a state cannot hold."""
    values = _PROPOSALS.dump_python(list(proposals), mode="json", warnings=False)
    written = json.loads(json.dumps(values, allow_nan=False))
    _PROPOSALS.validate_python(written)
    return written


def _guarded(propose: Propose, requests: Sequence[ProposalRequest]) -> Answer:
    """What would end a thread, such as SystemExit, must not end training when its result is asked for."""
    try:
        return propose(requests)
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
