"""Check the candidate rows that are folded from the journal's events."""

from __future__ import annotations

from typing import Any

from prompt_coevo.adapters.common.trackers.lineage import Row, rows_of
from prompt_coevo.report.lineage import Lineage


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
        "request": "r",
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


class Followed(Lineage):
    """Takes events one by one, as a tracker does."""

    def __init__(self, *events: Any) -> None:
        super().__init__()
        for event in events:
            self.take(event)

    @property
    def rows(self) -> dict[str, Row]:
        return {row.id: row for row in rows_of(self.run)}

    @property
    def fates(self) -> dict[str, str]:
        return {row.id: row.fate for row in self.rows.values()}


VERDICT = {"event": "candidate_verified", "parent": "first", "questions": ["p", "q"]}


def test_a_template_from_its_birth_to_its_end() -> None:
    lineage = Followed(checked("a", step=3))
    row = lineage.rows["a"]
    assert (row.parent, row.born, row.fate, row.reason) == (
        "first",
        3,
        "on trial",
        "it passed the gates",
    )
    rewards = {"rewards": [1.0, 0.5], "parent_rewards": [0.0, 0.5]}
    lineage.take({**VERDICT, "candidate": "a", "accepted": True, **rewards})
    row = lineage.rows["a"]
    assert row.fate == "won its trial"
    assert row.reason == "mean reward 0.75 on 2 questions, its parent's 0.25"
    lineage.take(assigned("a", pool=("a", "b")))
    assert lineage.fates == {"a": "in use", "b": "dropped"}
    assert lineage.rows["a"].evidence == "mean dev score 0.500"
    assert lineage.rows["b"].reason == "a search did not choose it"
    lineage.take({"event": "search_skipped", "reason": "few"})
    assert lineage.fates == {"a": "dropped", "b": "dropped"}
    assert lineage.rows["a"].reason == "few"
    lineage.take(assigned("b", pool=("a", "b")))
    assert lineage.fates == {"a": "dropped", "b": "in use"}


def test_a_trial_that_was_lost_has_its_means() -> None:
    lineage = Followed(checked("a"))
    rewards = {"rewards": [0.0, 0.5], "parent_rewards": [1.0, 0.5]}
    lineage.take({**VERDICT, "candidate": "a", "accepted": False, **rewards})
    row = lineage.rows["a"]
    assert row.fate == "lost its trial"
    assert row.reason == "mean reward 0.25 on 2 questions, its parent's 0.75"


def test_a_trial_that_judged_no_question_has_no_means() -> None:
    nothing = {"questions": [], "rewards": [], "parent_rewards": [], "accepted": False}
    lineage = Followed(checked("a"), {**VERDICT, "candidate": "a", **nothing})
    assert lineage.rows["a"].reason == "no question could be judged"


def test_a_refused_candidate_has_the_gates_reason() -> None:
    row = Followed(checked("a", accepted=False)).rows["a"]
    assert (row.fate, row.reason) == ("refused", "too long")


def test_a_proposal_made_again_does_not_change_what_became_of_it() -> None:
    lineage = Followed(checked("a"), assigned("a", pool=("a",)), checked("a", accepted=False))
    assert lineage.fates == {"a": "in use"}
    assert lineage.rows["a"].reason == "a search chose it for hard questions"


def test_a_population() -> None:
    first = checked("first", kind="instruction")["candidate"]
    change = {"event": "population_changed", "step": 0, "removed": []}
    second = {**first, "id": "second"}
    lineage = Followed(
        {**change, "population": ["first"], "added": [first]},
        {**change, "population": ["second"], "added": [second]},
        {"event": "instruction_weights", "weights": {"second": 0.25}},
    )
    assert lineage.fates == {"first": "dropped", "second": "in use"}
    assert lineage.rows["first"].reason == "it left the population"
    assert lineage.rows["second"].evidence == "weight 0.250"


def test_a_template_of_the_stream() -> None:
    trial = {"template": "a", "text": "hint", "step": 4, "tried": 8, "solved": 3}
    lineage = Followed({"event": "template_joined", **trial})
    row = lineage.rows["a"]
    assert (row.kind, row.text, row.born, row.fate) == ("template", "hint", 4, "in use")
    assert row.evidence == "solved 3 of 8 in its trial"
    lineage.take({"event": "template_dropped", **trial})
    lineage.take({"event": "template_dropped", **trial, "template": "b"})
    assert lineage.fates == {"a": "dropped", "b": "dropped"}
    assert [turn.fate for turn in lineage.run.candidates["a"].turns] == ["in use", "dropped"]
    assert [turn.fate for turn in lineage.run.candidates["b"].turns] == ["dropped"]


def test_a_template_whose_verdict_comes_before_its_check_keeps_what_the_check_says() -> None:
    trial = {"template": "a", "tried": 8, "solved": 3}
    lineage = Followed({"event": "template_joined", **trial}, checked("a"))
    row = lineage.rows["a"]
    assert (row.fate, row.text, row.parent) == ("in use", "text of a", "first")


def test_a_resumed_run_knows_what_the_attempts_before_it_did_up_to_its_checkpoint() -> None:
    begins = {"event": "run_begins", "journal": 1}
    lineage = Followed(
        begins,
        checked("of another run"),
        {"event": "state_saved", "step": 4},
        begins,
        checked("kept", step=2),
        {"event": "templates_assigned", "pool": 7},  # damaged
        checked("lost", step=5),
        {"event": "resumed", "journal": 1, "attempt": 1, "step": 4},
        checked("new", step=5),
    )
    assert list(lineage.rows) == ["kept", "new"]


def test_a_candidate_that_is_undone_and_proposed_again_is_the_newest() -> None:
    lineage = Followed(
        {"event": "run_begins", "journal": 1},
        checked("lost", step=5),
        checked("kept", step=2),
        {"event": "resumed", "journal": 1, "attempt": 1, "step": 4},
    )
    assert list(lineage.rows) == ["kept"]
    lineage.take(checked("lost", step=6))
    assert list(lineage.rows) == ["kept", "lost"]
    assert lineage.rows["lost"].born == 6


def test_what_a_step_decided_after_its_state_was_saved_is_done_again() -> None:
    """Decisions made after the last saved state are made again, as in the report."""
    lineage = Followed(
        {"event": "run_begins", "journal": 1},
        checked("before", step=4),
        {"event": "state_saved", "step": 4},
        checked("after", step=4),
        {"event": "resumed", "journal": 1, "attempt": 1, "step": 4},
    )
    assert list(lineage.rows) == ["before"]


def test_an_event_of_another_form_is_said_to_be_damaged() -> None:
    lineage = Followed()
    for fields in ({}, {"request": "r", "candidate": 7}, {"request": "r", "candidate": {"id": 7}}):
        assert not lineage.take({"event": "candidate_checked", **fields})
    assert lineage.rows == {}
