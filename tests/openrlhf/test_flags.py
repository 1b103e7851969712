"""Check the command line and the pure parts of the adapter."""

from __future__ import annotations

import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.openrlhf_arguments import arguments
from prompt_coevo.adapters.openrlhf import contract
from prompt_coevo.adapters.openrlhf.checks import check_arguments
from prompt_coevo.adapters.openrlhf.distill import exchange_prompt
from prompt_coevo.adapters.openrlhf.launch import install
from prompt_coevo.errors import HostError, SettingsError


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--coevo.method", "p3o"], "--coevo.method must be one of"),
        (["--coevo.stream.tua", "1"], "unknown setting stream.tua; did you mean stream.tau?"),
        (["--coevo.method", "stream"], "no reflection model is set"),
    ],
)
def test_a_refusal_is_one_sentence(tmp_path: Path, arguments: list[str], part: str) -> None:
    command = [sys.executable, "-P", "-m", "prompt_coevo.adapters.openrlhf", *arguments]
    run = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=1800, check=False
    )
    assert run.returncode == 1
    assert run.stderr.startswith("error: ")
    assert part in run.stderr
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("found", "error", "message"),
    [
        ("0.11.2", SettingsError, "unknown setting no_such"),
        ("0.11.1", HostError, "is not supported.*install openrlhf==0.11.2"),
        ("0.12.0", HostError, "is not supported.*install openrlhf==0.11.2"),
    ],
)
def test_versions(
    monkeypatch: pytest.MonkeyPatch, found: str, error: type[Exception], message: str
) -> None:
    monkeypatch.setattr(contract, "version", lambda name: found)
    with pytest.raises(error, match=message):
        install({"no_such": 1})


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"rollout.n_samples_per_prompt": 1}, "makes no groups"),
        ({"reward.remote_url": None}, "too late to judge prompts by"),
        ({"vllm.num_engines": 0}, "set --vllm.num_engines"),
        ({"ckpt.disable_ds": True, "ckpt.save_steps": 2}, "that hold the engine's state"),
        ({"train.partial_rollout_enable": True}, "in the middle of a rollout"),
        ({"ds.lora": SimpleNamespace(rank=4)}, "under names that vLLM does not know"),
        ({"data.max_images_per_prompt": 1}, "vision-language training is not supported"),
    ],
)
def test_refused_arguments(changes: dict[str, Any], part: str) -> None:
    with pytest.raises(HostError) as caught:
        check_arguments(arguments(**changes))
    assert part in str(caught.value)


def test_what_is_served() -> None:
    check_arguments(arguments())
    check_arguments(arguments(**{"ckpt.disable_ds": True}))


# Distillation of a response

RESPONSE = {
    "prompt": "hint question",
    "observation_tokens": [1, 2, 3, 7, 8, 0, 9],
    "action_ranges": [(3, 5), (6, 7)],
    "rollout_log_probs": [0.0, 0.0, 0.0, -1.0, -2.0, 0.0, -3.0],
}


def test_all_turns_move_along_with_a_shorter_prompt() -> None:
    response = deepcopy(RESPONSE)
    exchange_prompt(response, [1, 2, 3], "question", [3])
    assert response["observation_tokens"] == [3, 7, 8, 0, 9]
    assert response["action_ranges"] == [(1, 3), (4, 5)]
    assert response["rollout_log_probs"] == [0.0, -1.0, -2.0, 0.0, -3.0]
    assert response["prompt"] == "question"


def test_a_turn_moves_along_with_a_longer_prompt() -> None:
    response = deepcopy(RESPONSE)
    exchange_prompt(response, [1, 2, 3], "question", [4, 5, 6, 4])
    assert response["observation_tokens"] == [4, 5, 6, 4, 7, 8, 0, 9]
    assert response["action_ranges"] == [(4, 6), (7, 8)]
    assert response["rollout_log_probs"] == [0.0, 0.0, 0.0, 0.0, -1.0, -2.0, 0.0, -3.0]


def test_what_an_agent_gives_as_tuples() -> None:
    given = {name: RESPONSE[name] for name in ("observation_tokens", "rollout_log_probs")}
    response = {**RESPONSE, **{name: tuple(values) for name, values in given.items()}}
    exchange_prompt(response, [1, 2, 3], "question", [3])
    assert response["observation_tokens"] == [3, 7, 8, 0, 9]
    assert response["rollout_log_probs"] == [0.0, -1.0, -2.0, 0.0, -3.0]
    assert RESPONSE["observation_tokens"][0] == 1


def test_without_log_probs() -> None:
    response = {**deepcopy(RESPONSE), "rollout_log_probs": None}
    exchange_prompt(response, [1, 2, 3], "question", [3])
    assert response["rollout_log_probs"] is None


@pytest.mark.parametrize("rolled_out", [[1, 2, 4], [1, 2]])
def test_a_response_to_another_prompt_is_refused(rolled_out: list[int]) -> None:
    with pytest.raises(HostError, match="an agent must hand on the prompt unchanged"):
        exchange_prompt(deepcopy(RESPONSE), rolled_out, "question", [3])
