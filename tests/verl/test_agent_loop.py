"""Our agent loop around stand-ins for others (`helpers.verl_loops`), and how rows become rollouts."""

from __future__ import annotations

import asyncio
import math
import pickle
import subprocess
import sys
from typing import Any

import pytest
from verl.experimental.agent_loop.agent_loop import _agent_loop_registry

from prompt_coevo.adapters.verl.distil import (
    COLUMN,
    ERROR,
    NAME,
    CoevoAgentLoop,
    LoopName,
    pack,
)
from prompt_coevo.adapters.verl.harvest import _rollout, session
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment, Candidate, PolicyVersion

QUESTION = [{"role": "user", "content": "12345"}]
HINT = Candidate("123", "template")  # with the two line breaks behind it 5 characters more


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Loop", "TwoOutputs", "BeforeContinuousTokens", "Secretive"):
        monkeypatch.setitem(_agent_loop_registry, name, {"_target_": f"helpers.verl_loops.{name}"})


def run(inner: str, *group: Assignment, session_id: int = 0, sampling: Any = None) -> Any:
    loop = CoevoAgentLoop(tools="the tools")
    column = pack(inner, group or [Assignment("q", template=HINT)], sampling)
    row = {"raw_prompt": QUESTION, "session_id": session_id, COLUMN: column, "index": 3}
    return asyncio.run(loop.run({"temperature": 1.0, "top_p": 0.9}, **row))


@pytest.mark.parametrize("inner", ["Loop", "BeforeContinuousTokens"])
def test_it_samples_under_the_template_and_hands_back_the_question(inner: str) -> None:
    output = run(inner)
    assert output.extra_fields["row"]["raw_prompt"][0]["content"] == "123\n\n12345"
    assert output.prompt_ids == [5]
    assert output.extra_fields[COLUMN] == [0, 0, 0]
    assert ERROR not in output.extra_fields


def test_the_inner_loop_gets_its_row_and_parts_without_our_column() -> None:
    given = run("Loop").extra_fields
    assert given["row"].keys() == {"raw_prompt", "session_id", "index"}
    assert given["parts"] == {"tools": "the tools"}
    assert given["sampling"] == {"temperature": 1.0, "top_p": 0.9}


def test_every_output_of_a_rollout() -> None:
    assert [output.prompt_ids for output in run("TwoOutputs")] == [[5], [5]]


def test_rollouts_outside_training_keep_their_prompt_and_have_their_own_sampling() -> None:
    output = run("Secretive", sampling={"temperature": 0})
    assert output.prompt_ids == [10, 7]
    assert output.extra_fields["sampling"] == {"temperature": 0, "top_p": 0.9}
    assert ERROR not in output.extra_fields


def test_a_prompt_that_cannot_be_exchanged_ends_the_run_with_a_sentence() -> None:
    output = run("Secretive")
    assert "the agent loop Secretive does not return the prompt ids" in output.extra_fields[ERROR]
    with pytest.raises(HostError, match="set coevo.context_distillation=False, or let it return"):
        _rollout(Assignment("q"), ("", 1.0, output.extra_fields), PolicyVersion())


def test_a_worker_that_gets_the_name_knows_the_loop() -> None:
    """In a fresh process, as VeRL's agent loop workers are."""
    code = (
        "import pickle, sys; name = pickle.loads(bytes.fromhex(sys.argv[1]));"
        "from verl.experimental.agent_loop.agent_loop import _agent_loop_registry;"
        "print(_agent_loop_registry[name]['_target_'])"
    )
    arguments = [sys.executable, "-P", "-c", code, pickle.dumps(LoopName(NAME)).hex()]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=1800)
    assert done.stdout.split() == [f"{CoevoAgentLoop.__module__}.CoevoAgentLoop"]


# Rows


def test_keys() -> None:
    assert session("a-b-c_3_1") == ("a-b-c", 3)


@pytest.mark.parametrize(
    ("reward", "extra", "status"),
    [
        (1.0, {}, "ok"),
        (math.nan, {}, "no_reward"),
        (1.0, {"coevo_status": "tool_error"}, "tool_error"),
    ],
)
def test_statuses(reward: float, extra: dict[str, Any], status: str) -> None:
    row = ("text", reward, {COLUMN: [0, 0, 0], **extra})
    assert _rollout(Assignment("q"), row, PolicyVersion()).status == status


def test_a_rollout_without_a_row_was_aborted() -> None:
    rollout = _rollout(Assignment("q"), None, PolicyVersion())
    assert (rollout.status, rollout.fit) == ("aborted", False)


@pytest.mark.parametrize(
    ("extra", "part"),
    [
        ({}, "did not run through the agent loop of .coevo"),
        ({COLUMN: [0, 0, 1]}, "it reports .0, 0, 1."),
        ({COLUMN: [0, 0, 0], "coevo_status": "tired"}, "unknown status 'tired'; known: ok"),
    ],
)
def test_rows_that_did_not_run_as_planned(extra: dict[str, Any], part: str) -> None:
    with pytest.raises(HostError, match=part):
        _rollout(Assignment("q"), ("", 1.0, extra), PolicyVersion())
