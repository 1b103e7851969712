"""Rows of candidates from the journal's events."""

from __future__ import annotations

from typing import Any

import pytest

from prompt_coevo.doors.trackers.lineage import Lineage


def checked(name: str, step: int = 0, *, accepted: bool = True, kind: str = "template") -> Any:
    return {
        "event": "candidate_checked",
        "step": step,
        "candidate": {
            "id": name,
            "kind": kind,
            "text": f"text of {name}",
            "origin": "improve",
            "parents": ["first"],
        },
        "accepted": accepted,
        "reason": None if accepted else "too long",
    }


def assigned(*cover: str, pool: tuple[str, ...] = (), step: int = 0) -> Any:
    rows = [
        {"id": name, "kind": "template", "text": name, "origin": "improve", "parents": []}
        | {"dev_scores": [1.0, 0.0]}
        for name in pool
    ]
    return {"event": "templates_assigned", "step": step, "pool": rows, "cover": list(cover)}


def fates(lineage: Lineage) -> dict[str, str]:
    return {row.id: row.fate for row in lineage.rows.values()}


def test_a_template_from_its_birth_to_its_end() -> None:
    lineage = Lineage()
    assert lineage.take(checked("a", step=3)) is None
    row = lineage.rows["a"]
    assert (row.parent, row.born, row.fate) == ("first", 3, "on trial")
    verdict = {"event": "candidate_verified", "candidate": "a", "accepted": True}
    lineage.take({**verdict, "rewards": [1.0, 0.5], "parent_rewards": [0.0, 0.5]})
    assert row.fate == "accepted"
    assert row.reason == "mean reward 0.750, its parent's 0.250, on 2 questions"
    assert lineage.take(assigned("a", pool=("a", "b"))) is True
    assert fates(lineage) == {"a": "in use", "b": "not needed by the cover"}
    assert row.evidence == "mean dev score 0.500"
    assert lineage.take({"event": "search_skipped", "reason": "few"}) is True
    assert row.fate == "out of use"


def test_a_refused_candidate_has_the_gates_reason() -> None:
    lineage = Lineage()
    lineage.take(checked("a", accepted=False))
    assert (lineage.rows["a"].fate, lineage.rows["a"].reason) == ("refused by a gate", "too long")


def test_a_proposal_made_again_does_not_change_what_became_of_it() -> None:
    lineage = Lineage()
    lineage.take(checked("a"))
    lineage.take(assigned("a", pool=("a",)))
    lineage.take(checked("a", accepted=False))
    assert fates(lineage) == {"a": "in use"}


def test_a_population() -> None:
    lineage = Lineage()
    first = checked("first", kind="instruction")["candidate"]
    change = {"event": "population_changed", "step": 0, "removed": []}
    assert lineage.take({**change, "population": ["first"], "added": [first]}) is True
    second = {**first, "id": "second"}
    lineage.take({**change, "population": ["second"], "added": [second]})
    lineage.take({"event": "instruction_weights", "weights": {"second": 0.25}})
    assert fates(lineage) == {"first": "left the population", "second": "in use"}
    assert lineage.rows["second"].evidence == "weight 0.250"


def test_a_template_of_the_stream() -> None:
    lineage = Lineage()
    trial = {"template": "a", "text": "hint", "step": 4, "tried": 8, "solved": 3}
    assert lineage.take({"event": "template_joined", **trial}) is False
    assert lineage.rows["a"].evidence == "solved 3 of 8 in its trial"
    lineage.take({"event": "template_dropped", **trial})
    lineage.take({"event": "template_dropped", **trial, "template": "b"})
    assert fates(lineage) == {"a": "out of use", "b": "rejected by its trial"}


def test_a_resumed_run_knows_what_the_attempts_before_it_did_up_to_its_checkpoint() -> None:
    events = [
        {"event": "run_begins"},
        checked("of another run"),
        {"event": "state_saved", "step": 4},
        {"event": "run_begins"},
        checked("kept", step=2),
        {"event": "templates_assigned"},  # damaged
        checked("lost", step=5),
        {"event": "resumed", "step": 4},
        checked("new", step=5),
    ]
    lineage = Lineage()
    lineage.replay(events)
    assert list(lineage.rows) == ["kept", "new"]


def test_what_a_step_decided_after_its_state_was_saved_is_done_again() -> None:
    """As the report tells it."""
    lineage = Lineage()
    lineage.replay(
        [
            checked("before", step=4),
            {"event": "state_saved", "step": 4},
            checked("after", step=4),
            {"event": "resumed", "step": 4},
        ]
    )
    assert list(lineage.rows) == ["before"]


def test_an_event_of_another_form_is_an_error_that_the_caller_catches() -> None:
    with pytest.raises(KeyError):
        Lineage().take({"event": "candidate_checked"})
