"""Check typical mistakes with OpenRLHF, each made for real, against tests/mistakes.toml.

All of them are reported before Ray starts.
"""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from datasets import Dataset
from transformers import AutoTokenizer

from helpers import mistakes_table
from helpers.mistakes_table import told
from helpers.openrlhf_arguments import arguments
from prompt_coevo.adapters.openrlhf.checks import check_arguments
from prompt_coevo.adapters.openrlhf.command import run_command
from prompt_coevo.adapters.openrlhf.launch import install
from prompt_coevo.adapters.openrlhf.questions import CoevoPromptDataset
from prompt_coevo.errors import CoevoError
from prompt_coevo.settings import Settings
from worlds.pairs.world import base_policy_path

MODEL = {"reflection": {"function": str}}
STREAM = ("--coevo.method", "stream")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("PROMPT_COEVO_"):
            monkeypatch.delenv(name)


def test_mistakes_with_openrlhf(monkeypatch: pytest.MonkeyPatch) -> None:
    def command(*flags: str) -> str:
        monkeypatch.setattr(sys, "argv", ["openrlhf", *flags])
        with pytest.raises(SystemExit) as raised:
            run_command("openrlhf.cli.train_ppo_ray", install)
        return told(raised.value).removeprefix("error: ")

    def host(**changes: Any) -> str:
        name, value = next(iter(changes.items()))
        with pytest.raises(CoevoError) as raised:
            check_arguments(arguments(**{name: value}))
        return told(raised.value)

    def dataset(**settings: Any) -> str:
        row = {"input": [{"role": "user", "content": "one"}], "label": "1"}
        with pytest.raises(CoevoError) as raised:
            _dataset([row]).index(Settings(**MODEL, **settings))
        return told(raised.value)

    found = {
        "a preset that is none: `--coevo.preset p2`": command(*STREAM, "--coevo.preset", "p2"),
        "a misspelt flag: `--coevo.stream.tua 0.1`": command(*STREAM, "--coevo.stream.tua", "0.1"),
        "no reflection model": command(*STREAM),
        "one rollout a prompt: `--rollout.n_samples_per_prompt 1`": host(
            **{"rollout.n_samples_per_prompt": 1}
        ),
        "rewards by a reward model: no `--reward.remote_url`": host(**{"reward.remote_url": None}),
        "no vLLM: `--vllm.num_engines 0`": host(**{"vllm.num_engines": 0}),
        "weights that change in the middle of a rollout: `--train.partial_rollout_enable`": host(
            **{"train.partial_rollout_enable": True}
        ),
        "a misspelt column of right answers: `--coevo.ground_truth_column lable`": dataset(
            ground_truth_column="lable"
        ),
        "a column of ids that is not there: `--coevo.question_id_column id`": dataset(
            question_id_column="id"
        ),
    }
    mistakes_table.compare("openrlhf", found)


def _dataset(rows: list[dict[str, Any]]) -> CoevoPromptDataset:
    data = SimpleNamespace(
        input_key="input",
        label_key="label",
        apply_chat_template=True,
        image_key=None,
        max_images_per_prompt=0,
    )
    strategy = SimpleNamespace(
        args=SimpleNamespace(data=data), print=lambda *_: None, is_rank_0=lambda: False
    )
    tokenizer = AutoTokenizer.from_pretrained(base_policy_path())
    return CoevoPromptDataset(Dataset.from_list(rows), tokenizer, strategy)
