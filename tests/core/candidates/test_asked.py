"""Check requests in flight, and how a state stores them."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from prompt_coevo.candidates.background import Answer, Asked
from prompt_coevo.proposals import Proposal, ProposalRequest, Reply, Trajectory, Usage
from prompt_coevo.types import Candidate

REQUEST = ProposalRequest(
    "template", (Candidate("z", "template"),), (Trajectory("q", "wrong", 0.0, "right"),)
)


def proposed(requests: Sequence[ProposalRequest], usage: Usage = Usage(3, 2, 0.5)) -> Answer:
    return [Proposal(one, ("better",), Reply("re", "stop", None, usage)) for one in requests]


def refused(requests: Sequence[ProposalRequest]) -> Answer:
    raise AssertionError("there is nothing to ask for")


def as_json(asked: Asked) -> Any:
    return json.loads(json.dumps(asked.to_json(), allow_nan=False))


def test_an_answer_is_saved_and_not_asked_for_again() -> None:
    asked = Asked([REQUEST], 7, proposed)
    assert asked.answer(300) == proposed([REQUEST])
    again = Asked.from_json(as_json(asked), refused)
    assert (again.requests, again.use_at) == ((REQUEST,), 7)
    assert again.done
    assert again.answer(0.0) == proposed([REQUEST])


def test_a_state_that_is_saved_as_soon_as_it_was_read_holds_the_answer() -> None:
    state = as_json(Asked([REQUEST], 7, proposed, in_background=False))
    assert state["answer"] is not None
    for _ in range(50):  # no thread may come too late
        state = as_json(Asked.from_json(state, refused))
        assert state["answer"] is not None


def test_what_is_not_there_yet_is_asked_for_again() -> None:
    release = threading.Event()

    def slow(requests: Sequence[ProposalRequest]) -> Answer:
        release.wait(300)
        return None

    state = as_json(Asked([REQUEST], 7, slow))
    release.set()
    assert state["answer"] is None
    assert Asked.from_json(state, proposed).answer(300) == proposed([REQUEST])


def test_what_is_not_to_be_asked_in_the_background_is_asked_for_here() -> None:
    here: list[int] = []

    def ask(requests: Sequence[ProposalRequest]) -> Answer:
        here.append(threading.get_ident())
        return proposed(requests)

    state = as_json(Asked([REQUEST], 7, lambda _: None, in_background=False))
    assert Asked.from_json(state, ask, in_background=False).done
    assert here == [threading.get_ident()]


@pytest.mark.parametrize("usage", [Usage(usd=math.nan), Usage("many"), Usage(1.5)])  # type: ignore[arg-type]
def test_an_answer_that_no_state_can_hold_is_asked_for_again(usage: Usage) -> None:
    """A third-party proposer need not use the model whose calls the engine accounts for."""
    asked = Asked([REQUEST], 7, lambda given: proposed(given, usage), in_background=False)
    state = as_json(asked)
    assert state["answer"] is None
    assert Asked.from_json(state, proposed).answer(300) == proposed([REQUEST])
