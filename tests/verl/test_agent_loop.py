"""Check our agent loop around stand-ins for others (`helpers.verl_loops`), and how rows become rollouts."""

from __future__ import annotations

import asyncio
import math
import pickle
import subprocess
import sys
from typing import Any, Final

import cloudpickle
import pytest
from tensordict import TensorDict
from verl.experimental.agent_loop.agent_loop import _agent_loop_registry
from verl.utils import tensordict_utils as tu

from prompt_coevo.adapters.common.late_texts import LateTexts
from prompt_coevo.adapters.common.success import Success
from prompt_coevo.adapters.verl.distill import (
    COLUMN,
    ERROR,
    NAME,
    REWARD,
    TRAINED,
    CoevoAgentLoop,
    Plan,
    fingerprint,
)
from prompt_coevo.adapters.verl.rollouts import BEGAN_WITH, _rollout, session
from prompt_coevo.errors import HostError
from prompt_coevo.settings.success import SuccessSettings
from prompt_coevo.types import Assignment, Candidate, PolicyVersion

QUESTION = [{"role": "user", "content": "12345"}]
TEXTS = LateTexts(lambda names: [f"text of {name}" for name in names])
OWN = Success(SuccessSettings(), "there")


def by_these(_: object) -> PolicyVersion:
    return PolicyVersion()


HINT = Candidate("123", "template")  # 5 more characters, with the two line breaks after it


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Loop", "TwoOutputs", "BeforeContinuousTokens", "Secretive", "Deaf"):
        monkeypatch.setitem(_agent_loop_registry, name, {"_target_": f"helpers.verl_loops.{name}"})


class Lengths:
    """A tokenizer for loops whose ids are the lengths of texts, of which there are few."""

    TEXTS: Final = {3: "123", 5: "five5", 7: "seven77", 10: "123\n\nfive5"}

    def __call__(self, text: str, **_: object) -> dict[str, Any]:
        return {"input_ids": [len(text)]}

    def batch_decode(self, ids: Any, **_: object) -> list[str]:
        return [" ".join(self.TEXTS.get(one, "") for one in row) for row in ids]


LENGTHS = Lengths()


def run(
    inner: str,
    *group: Assignment,
    session_id: int = 0,
    sampling: Any = None,
    own: Any = QUESTION,
) -> Any:
    loop = CoevoAgentLoop(tools="the tools", tokenizer=LENGTHS)
    plan = Plan(inner, group or [Assignment("q", template=HINT)], sampling)
    row = {"raw_prompt": QUESTION, "session_id": session_id, COLUMN: plan, "index": 3}
    if inner == "Deaf":
        row["own"] = own
    return asyncio.run(loop.run({"temperature": 1.0, "top_p": 0.9}, **row))


@pytest.mark.parametrize("inner", ["Loop", "BeforeContinuousTokens"])
def test_it_samples_under_the_template_and_hands_back_the_question(inner: str) -> None:
    output = run(inner)
    assert output.extra_fields["row"]["raw_prompt"][0]["content"] == "123\n\n12345"
    assert output.prompt_ids == [5]
    assert output.extra_fields[COLUMN] == [0, 0, 0]
    assert output.extra_fields[TRAINED] == fingerprint([5])
    assert ERROR not in output.extra_fields


def test_the_inner_loop_gets_its_row_and_parts_without_our_column() -> None:
    given = run("Loop").extra_fields
    assert given["row"].keys() == {"raw_prompt", "session_id", "index"}
    assert given["parts"] == {"tools": "the tools", "tokenizer": LENGTHS}
    assert given["sampling"] == {"temperature": 1.0, "top_p": 0.9}


def test_every_output_of_a_rollout() -> None:
    """Later outputs begin with the first prompt; only that part is exchanged."""
    assert [output.prompt_ids for output in run("TwoOutputs")] == [[5], [5, 1, 2, 3, 9]]


def test_rollouts_outside_training_keep_their_prompt_and_have_their_own_sampling() -> None:
    output = run("Secretive", sampling={"temperature": 0})
    assert output.prompt_ids == [7, 10]
    assert output.extra_fields["sampling"] == {"temperature": 0, "top_p": 0.9}
    assert ERROR not in output.extra_fields


def test_a_prompt_that_cannot_be_exchanged_ends_the_run_with_a_sentence() -> None:
    output = run("Secretive")
    assert "the agent loop Secretive does not return the prompt ids" in output.extra_fields[ERROR]
    with pytest.raises(HostError, match="set coevo.context_distillation=False, or let it return"):
        _rollout(Assignment("q"), ("key", 1.0, output.extra_fields), TEXTS, by_these, OWN)


@pytest.mark.parametrize(
    "one",
    [
        Assignment("q", template=HINT),
        Assignment("q", template=HINT, distill=False),
        Assignment("q", instruction=Candidate("123", "instruction")),
    ],
    ids=["distilled", "template", "instruction"],
)
def test_a_loop_that_does_not_use_the_prompt_ends_the_run(one: Assignment) -> None:
    for own in (QUESTION, [{"role": "system", "content": "seven77"}, *QUESTION]):
        found = run("Deaf", one, own=own).extra_fields[ERROR]
        assert "the agent loop Deaf does not use the raw_prompt" in found
        assert ERROR not in run("Deaf", Assignment("q"), own=own).extra_fields  # nothing is placed


def test_a_loop_that_tokenizes_in_its_own_way_may_place_an_instruction() -> None:
    one = Assignment("q", instruction=Candidate("123", "instruction"))
    assert ERROR not in run("Secretive", one).extra_fields


def test_a_worker_that_gets_a_plan_knows_the_loop() -> None:
    """Runs in a fresh process, as VeRL's agent loop workers do."""
    code = (
        "import pickle, sys; pickle.loads(bytes.fromhex(sys.argv[1]));"
        "from verl.experimental.agent_loop.agent_loop import _agent_loop_registry;"
        f"print(_agent_loop_registry[{NAME!r}]['_target_'])"
    )
    arguments = [sys.executable, "-P", "-c", code, pickle.dumps(Plan("Loop", [])).hex()]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=1800)
    assert done.stdout.split() == [f"{CoevoAgentLoop.__module__}.CoevoAgentLoop"]


def test_a_plan_travels_to_a_worker_and_no_further() -> None:
    """VeRL copies the plan into every row of the group, and sends it to the reward."""
    group = [Assignment("q", member=member, template=HINT) for member in range(4)]
    arrived = pickle.loads(pickle.dumps(Plan("Loop", group, {"temperature": 0})))
    assert arrived.use(6) == group[2]
    assert (arrived.inner, arrived.sampling) == ("Loop", {"temperature": 0})
    assert pickle.loads(pickle.dumps(arrived)) == ""
    assert arrived.use(3) == group[3]  # by a rollout that begins later


def test_a_candidate_travels_once_however_many_run_under_it() -> None:
    hint = Candidate("a long hint " * 1_000, "template")
    groups = [[Assignment(f"q{n}", member=m, template=hint) for m in range(16)] for n in range(64)]
    batch = TensorDict({}, batch_size=64)
    tu.assign_non_tensor_stack(batch, COLUMN, [Plan("Loop", group) for group in groups])
    assert len(cloudpickle.dumps(batch)) < len(hint.text) + 64 * 16 * 100


def test_the_reward_is_written_down_where_it_costs_nothing_to_read() -> None:
    """VeRL sets the reward after the loop returned; a later one is not yet in any row."""
    output = run("Loop")
    assert REWARD not in output.as_dict()["extra_fields"]
    output.reward_score = 0.25
    written = output.as_dict()
    assert written["extra_fields"][REWARD] == 0.25
    assert written["rm_scores"].tolist() == [0.0, 0.0, 0.25]
    assert "routed_experts" not in written  # which was never set


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
    row = ("key", reward, {COLUMN: [0, 0, 0], BEGAN_WITH: 1, **extra})
    rollout = _rollout(Assignment("q"), row, TEXTS, by_these, OWN)
    assert (rollout.status, rollout.completion) == (status, "text of key")


def test_a_rollout_without_a_row_was_aborted() -> None:
    rollout = _rollout(Assignment("q"), None, TEXTS, by_these, OWN)
    assert (rollout.status, rollout.fit) == ("aborted", False)


@pytest.mark.parametrize(
    ("extra", "part"),
    [
        ({}, "did not run through the agent loop of .coevo"),
        ({COLUMN: [0, 0, 1]}, "it reports .0, 0, 1."),
        (
            {COLUMN: [0, 0, 0], BEGAN_WITH: 1, "coevo_status": "tired"},
            "unknown status 'tired'; known: ok",
        ),
    ],
)
def test_rows_that_did_not_run_as_planned(extra: dict[str, Any], part: str) -> None:
    with pytest.raises(HostError, match=part):
        _rollout(Assignment("q"), ("key", 1.0, extra), TEXTS, by_these, OWN)
