"""The real trainers on the demo's base policy: 157 000 parameters, trained, so that hints matter."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ.update(CI="1", HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", OMP_NUM_THREADS="1")

import pytest
import torch
from datasets import config
from transformers import AutoTokenizer

from helpers.trl_scripts import TEMPLATE, lay_out
from helpers.trl_trainers import build_trainer
from standins.openai_server import Server, openai_server
from worlds.pairs.world import base_policy_path

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(base_policy_path())


@pytest.fixture
def make_trainer(tmp_path: Path) -> Callable[..., Any]:
    """A GRPOTrainer or RLOOTrainer on 8 hard questions, see `build_trainer`."""
    return partial(build_trainer, tmp_path)


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub")
    lay_out(folder)
    return folder


@pytest.fixture
def template_server() -> Iterator[Server]:
    with openai_server(f"<template>{TEMPLATE}</template>") as server:
        yield server


@pytest.fixture
def as_on_the_hub(
    hub: Path, tmp_path: Path, template_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder that scripts run in, and a server that replies with a template in place of OpenAI's."""
    for one in hub.iterdir():
        (tmp_path / one.name).symlink_to(one)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setenv("OPENAI_API_BASE", template_server.base)
    monkeypatch.setenv("OPENAI_API_KEY", "nobody's")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
