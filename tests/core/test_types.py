from __future__ import annotations

import json
import math

import pytest

from prompt_coevo.errors import HostError
from prompt_coevo.types import (
    EMPTY_TEMPLATE,
    Assignment,
    Candidate,
    Group,
    PolicyVersion,
    Rollout,
    RolloutStatus,
)

TEMPLATE = Candidate("Hint.", "template", "reflection", ("a", "b"), PolicyVersion(1, 7))
INSTRUCTION = Candidate("Think.", "instruction")


def test_a_candidates_id_depends_on_kind_and_text_alone() -> None:
    assert TEMPLATE.id == Candidate("Hint.", "template").id
    assert TEMPLATE.id != Candidate("Hint.", "instruction").id
    assert Candidate.from_json(json.loads(json.dumps(TEMPLATE.to_json()))) == TEMPLATE


def test_an_assignment_survives_json() -> None:
    assignment = Assignment("q", 3, 2, 1, INSTRUCTION, TEMPLATE, distill=False)
    assert Assignment.from_json(json.loads(json.dumps(assignment.to_json()))) == assignment
    bare = Assignment("q")
    assert Assignment.from_json(json.loads(json.dumps(bare.to_json()))) == bare


def test_the_trained_prompt_has_the_instruction_and_not_the_template() -> None:
    assignment = Assignment("q", instruction=INSTRUCTION, template=TEMPLATE)
    assert assignment.rollout_prompt("x") == "Think.\n\nHint.\n\nx"
    assert assignment.train_prompt("x") == "Think.\n\nx"
    assert assignment.templated
    assert assignment.distilled


def test_without_distillation_both_prompts_are_the_same() -> None:
    assignment = Assignment("q", template=TEMPLATE, distill=False)
    assert assignment.train_prompt("x") == assignment.rollout_prompt("x") == "Hint.\n\nx"
    assert assignment.templated
    assert not assignment.distilled


def test_the_empty_template_counts_as_untemplated() -> None:
    assignment = Assignment("q", template=EMPTY_TEMPLATE)
    assert assignment.rollout_prompt("x") == "x"
    assert not assignment.templated
    assert not assignment.distilled


@pytest.mark.parametrize(
    ("reward", "status", "fit"),
    [
        (0.0, "ok", True),
        (math.nan, "ok", False),
        (math.inf, "ok", False),
        (1.0, "tool_error", False),
        (1.0, "aborted", False),
        (math.nan, "no_reward", False),
    ],
)
def test_what_is_fit_to_judge_by(reward: float, status: RolloutStatus, fit: bool) -> None:
    assert Rollout(Assignment("q"), "text", reward, status).fit is fit


def test_a_groups_mean_leaves_unfit_rollouts_out() -> None:
    rollouts = [
        Rollout(Assignment("q"), "", 1.0),
        Rollout(Assignment("q"), "", 0.0),
        Rollout(Assignment("q"), "", 1.0, "tool_error"),
        Rollout(Assignment("q"), "", math.nan),
    ]
    assert Group("q", tuple(rollouts)).mean_reward == 0.5
    assert Group("q", tuple(rollouts[2:])).mean_reward is None


def test_any_text_of_a_model_has_an_id() -> None:
    ids = {Candidate(text, "template").id for text in ("a", "a\ud800", "a\udfff", "a?")}
    assert len(ids) == 4


@pytest.mark.parametrize(
    "change",
    [
        {"question_id": 7},
        {"member": "1"},
        {"member": [1]},
        {"distill": 1},
        {"instruction": {}},
        {"instruction": 0},
        {"template": {**TEMPLATE.to_json(), "text": None}},
        {"template": {**TEMPLATE.to_json(), "kind": "other"}},
        {"template": {**TEMPLATE.to_json(), "created": [1, 2, 3]}},
        {"placement": None},
        {"placement": {"unknown": "x"}},
        {"placement": {"instruction": 1}},
    ],
)
def test_an_assignment_that_came_back_wrong_is_refused(change: dict[str, object]) -> None:
    whole = Assignment("q", 1, 2, 3, INSTRUCTION, TEMPLATE).to_json()
    assert Assignment.from_json(json.loads(json.dumps(whole))).template == TEMPLATE
    with pytest.raises(HostError, match="did not come back as it was sent"):
        Assignment.from_json({**whole, **change})
