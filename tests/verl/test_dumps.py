"""Check that VeRL's dumps say what a rollout ran under."""

from __future__ import annotations

from prompt_coevo.adapters.verl.dumps import INSTRUCTION, TEMPLATE, RanUnder
from prompt_coevo.types import EMPTY_TEMPLATE, Assignment, Candidate

GROUP = [
    Assignment("q1", 0, 0, 0, Candidate("be brief", "instruction"), EMPTY_TEMPLATE),
    Assignment("q1", 0, 0, 1, template=Candidate("a hint", "template")),
]


def test_each_row_is_with_its_texts() -> None:
    ran_under = RanUnder()
    ran_under.note({"a": GROUP})
    keys = ["a_1_0", "a_0_0", "a_0_1", "pad", "b_0_0"]
    columns = ran_under.columns({"uid": keys})
    assert columns["uid"] == keys
    assert columns[TEMPLATE] == ["a hint", "", "", None, None]
    assert columns[INSTRUCTION] == [None, "be brief", "be brief", None, None]
    ran_under.clear()
    assert ran_under.columns({"uid": keys})[TEMPLATE] == [None] * 5
