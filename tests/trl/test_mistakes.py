"""Check typical mistakes with TRL, each made for real, against tests/mistakes.toml."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import Trainer, TrainingArguments

from helpers import mistakes_table
from helpers.mistakes_table import told
from helpers.trl_world import rows
from prompt_coevo.adapters.trl import CoevoCallback, attach
from prompt_coevo.errors import CoevoError
from standins.openai_server import openai_server

MODEL = {"reflection": {"function": str}}


def test_mistakes_with_trl(make_trainer: Any, tmp_path: Path) -> None:
    found: dict[str, str] = {}

    def refused(mistake: str, act: Callable[[], object], trainer: Any) -> None:
        with pytest.raises(CoevoError) as raised:
            act()
        assert trainer.state.global_step == 0
        found[mistake] = told(raised.value, tmp_path)

    def attached(mistake: str, settings: dict[str, Any] = MODEL, **made: Any) -> None:
        trainer = make_trainer(**made)
        refused(mistake, lambda: attach(trainer, settings), trainer)

    twice = make_trainer()
    twice.add_callback(attach(twice, MODEL))
    refused("the callback added twice", twice.train, twice)
    never = make_trainer()
    CoevoCallback(never, MODEL)
    refused("the callback built and never added", never.train, never)
    with openai_server(404) as server:
        dead = make_trainer()
        model = {"model": "openai/gtp-5", "api_base": server.base, "api_key": "sk-nobodys"}
        attach(dead, {"reflection": {**model, "timeout_s": 1000, "total_timeout_s": 1000}})
        refused("a misspelt reflection model", dead.train, dead)
    plain = Trainer(
        twice.model, TrainingArguments(str(tmp_path / "plain"), use_cpu=True, report_to="none")
    )
    refused("another trainer", lambda: attach(plain, MODEL), plain)
    attached(
        "checkpoints without the optimizer: `save_only_model=True`",
        save_strategy="epoch",
        save_only_model=True,
    )
    attached("no reflection model", {})
    attached("no instruction to start from", {"algorithms": "inspo", **MODEL})
    attached(
        "a misspelt column",
        {"ground_truth_column": "anwser", **MODEL},
        dataset=rows(),
    )
    mistakes_table.compare("trl", found)
