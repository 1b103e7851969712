"""Torch on one thread, and no settings from the environment."""

from __future__ import annotations

import os

os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("PROMPT_COEVO_"):
            monkeypatch.delenv(name)
