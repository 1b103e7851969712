"""Check typical mistakes with VeRL, each made for real, against tests/mistakes.toml.

All of them are reported before Ray starts.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_module

from helpers import mistakes_table
from helpers.mistakes_table import told
from helpers.verl_launch import launch
from helpers.verl_run import rows, write_rows
from prompt_coevo.adapters.verl.launch import LaunchCheck
from worlds.pairs.world import base_policy_path


def test_mistakes_with_verl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("PROMPT_COEVO_"):
            monkeypatch.delenv(name)
    write_rows(tmp_path / "train.parquet", rows())
    data = (
        "coevo.preflight.dry_run=true",  # as the trainer reads them, and no further
        f"data.train_files={tmp_path / 'train.parquet'}",
        f"actor_rollout_ref.model.path={base_policy_path()}",
    )

    def refused(
        *overrides: str,
        model: str | None = "openai/teacher",
        called: Callable[[Any], None] = launch,
    ) -> str:
        given = [] if model is None else [f"coevo.reflection.model={model}"]
        choice = ["+coevo=stream", "actor_rollout_ref.rollout.n=4", *given]
        config = compose("ppo_trainer", overrides=[*choice, *overrides])
        with pytest.raises(SystemExit) as raised:
            called(config)
        return told(raised.value, tmp_path).removeprefix("error: ")

    with initialize_config_module("verl.trainer.config", version_base=None):
        found = {
            "a preset that is none: `coevo.preset=p2`": refused("coevo.preset=p2"),
            "a misspelt key: `coevo.stream.tua=0.1`": refused("coevo.stream.tua=0.1"),
            "a method that is none: `coevo.algorithms=[p3o]`": refused("coevo.algorithms=[p3o]"),
            "a key on the command line": refused("coevo.reflection.api_key=sk-1"),
            "no reflection model": refused(model=None),
            "one rollout a question: `actor_rollout_ref.rollout.n=1`": refused(
                "actor_rollout_ref.rollout.n=1"
            ),
            "a trainer that is none: `trainer.v1.trainer_mode=async`": refused(
                "trainer.v1.trainer_mode=async"
            ),
            "several jobs: `--multirun`": refused(
                called=partial(LaunchCheck(own_main=True).on_job_start, task_function=print)
            ),
            "the deprecated trainer: `trainer.use_v1=False`": refused("trainer.use_v1=False"),
            "a misspelt column of right answers: `coevo.ground_truth_column=anwser`": refused(
                *data, "coevo.ground_truth_column=anwser"
            ),
            "a column of ids that is not there: `coevo.question_id_column=uid`": refused(
                *data, "coevo.question_id_column=uid"
            ),
            "a dataset that is not there": refused(*data, "data.train_files=/no/such.parquet"),
        }
    mistakes_table.compare("verl", found)
