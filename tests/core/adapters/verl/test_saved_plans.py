from __future__ import annotations

import json
from typing import Any

import pytest

from prompt_coevo.adapters.verl.saved_plans import plans_from_json, plans_to_json
from prompt_coevo.errors import HostError
from prompt_coevo.placement import Placement
from prompt_coevo.types import Assignment, Candidate

TEMPLATE = Candidate("a long text", "template")
GROUPS = {
    "a": [
        Assignment("q1", 3, 0, 0, template=TEMPLATE, placement=Placement()),
        Assignment("q1", 3, 0, 1, Candidate("be brief", "instruction"), TEMPLATE, distill=False),
    ],
    "b": [Assignment("q2", 3, 1, 0)],
}


def test_plans_come_back_as_they_were() -> None:
    assert plans_from_json(json.loads(json.dumps(plans_to_json(GROUPS)))) == GROUPS


def test_a_text_is_written_once() -> None:
    assert json.dumps(plans_to_json(GROUPS)).count(TEMPLATE.text) == 1


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"candidates": {}, "groups": []},
        {"candidates": {}, "groups": {"a": [{"question_id": "q1"}]}},
        {**plans_to_json(GROUPS), "candidates": {}},
    ],
)
def test_anything_else_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(HostError, match="resume from another one|as it was sent"):
        plans_from_json(data)
