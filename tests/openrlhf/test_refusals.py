"""Check the refusals that are only possible once the trainer has started, each in one sentence.

Stand-ins: vLLM, flash-attn and the device.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.openrlhf_run import Result, rows, run_openrlhf

pytestmark = pytest.mark.long


def refused(folder: Path, *flags: str, **arguments: Any) -> Result:
    model = ("--coevo.reflection.model", "openai/nobody", "--coevo.preflight.reflection", "off")
    result = run_openrlhf(
        folder, module="prompt_coevo.adapters.openrlhf", overrides=[*model, *flags], **arguments
    )
    assert result.returncode == 1
    assert not result.actor
    return result


def test_an_instruction_that_does_not_fit(tmp_path: Path) -> None:
    text = " ".join(["note"] * 140)
    run = refused(tmp_path, "--coevo.method", "inspo", "--coevo.inspo.instruction", text)
    assert "--data.max_len leaves room for" in run.output
    assert not run.generated()


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    run = refused(tmp_path, "--coevo.method", "stream", "--coevo.question_id_column", "id")
    assert (
        "the training dataset has no column 'id' (question_id_column); it has: input" in run.output
    )


@pytest.mark.parametrize("method", [["stream"], ["inspo", "--coevo.inspo.instruction", "note"]])
def test_a_question_that_does_not_fit(tmp_path: Path, method: list[str]) -> None:
    long = {"input": [{"role": "user", "content": "note " * 140}], "label": "1"}
    run = refused(tmp_path, "--coevo.method", *method, train=[*rows(), long])
    assert "the longest question needs" in run.output
    assert not run.generated()


def test_equal_questions_with_two_ids(tmp_path: Path) -> None:
    data = [{**row, "id": number} for number, row in enumerate([*rows(), rows()[0]])]
    flags = ("--coevo.method", "stream", "--coevo.question_id_column", "id")
    run = refused(tmp_path, *flags, train=data)
    assert "have the same prompt and label but different question ids" in run.output


def test_some_rollouts_without_a_reward(tmp_path: Path) -> None:
    run = refused(tmp_path, "--coevo.method", "stream", reward="fails_sometimes")
    assert "a rollout of the training batch has no reward" in run.output
