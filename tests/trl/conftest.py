"""Run the real trainers on the demo's base policy: 157 000 parameters, trained so that hints matter."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.update(CI="1", HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", OMP_NUM_THREADS="1")

import pytest
import torch
from transformers import AutoTokenizer

from helpers.trl_hub import as_on_the_hub, hub, template_server
from helpers.trl_trainers import build_trainer
from worlds.pairs.world import base_policy_path

__all__ = ["as_on_the_hub", "hub", "make_trainer", "template_server", "tokenizer"]

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(base_policy_path())


@pytest.fixture
def make_trainer(tmp_path: Path) -> Callable[..., Any]:
    """Build a GRPOTrainer or RLOOTrainer on 8 hard questions, see `build_trainer`."""
    return partial(build_trainer, tmp_path)
