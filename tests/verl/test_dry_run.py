"""Check `coevo.preflight.dry_run=true`: model and dataset are read at the command check, before Ray."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from hydra import compose, initialize_config_module

from helpers.verl_launch import launch
from helpers.verl_run import rows, write_rows
from helpers.verl_world import reflection
from prompt_coevo.adapters.verl.checks import workload
from prompt_coevo.settings.method import Workload
from standins.openai_server import openai_server
from worlds.pairs.world import base_policy_path


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith("PROMPT_COEVO_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody")
    with initialize_config_module("verl.trainer.config", version_base=None):
        yield


@pytest.fixture
def overrides(tmp_path: Path) -> Callable[..., list[str]]:
    write_rows(tmp_path / "train.parquet", rows())

    def made(base: str, *more: str) -> list[str]:
        return [
            *("+coevo=stream", "coevo.preflight.dry_run=true", *reflection(base)),
            "coevo.preflight.reflection=refuse",
            f"data.train_files={tmp_path / 'train.parquet'}",
            f"data.val_files={tmp_path / 'train.parquet'}",
            *("data.train_batch_size=4", "data.max_prompt_length=128"),
            f"actor_rollout_ref.model.path={base_policy_path()}",
            *("actor_rollout_ref.rollout.n=4", "trainer.total_epochs=3"),
            f"trainer.default_local_dir={tmp_path / 'checkpoints'}",
            *more,
        ]

    return made


def ended(arguments: list[str]) -> Any:
    with pytest.raises(SystemExit) as raised:
        launch(compose("ppo_trainer", overrides=arguments))
    assert not ray.is_initialized()
    return raised.value.code


def words(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_a_run_that_may_begin(
    overrides: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with openai_server("ready") as server:
        assert ended(overrides(server.base)) == 0
        assert len(server.requests) == 1
    page = words(capsys)
    for part in (
        "the reflection model 'openai/teacher' answered",
        "8 questions in 1 shape",
        "an epoch is 8 questions × 4 = 32 training rollouts; the run has 3 epochs, 6 steps",
        "none was made",
        "no problem",
    ):
        assert part in page, part
    assert not (tmp_path / "checkpoints").exists()


def test_a_dead_model_and_a_run_of_one_epoch(
    overrides: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with openai_server(404) as server:
        assert (
            ended(
                overrides(server.base, "trainer.total_epochs=1", "coevo.stream.first_sight=false")
            )
            == 1
        )
    page = words(capsys)
    assert "the reflection model 'openai/teacher' does not answer" in page
    assert "no template will ever be used, because the run has one epoch" in page
    assert "2 problems" in page


@pytest.mark.parametrize(
    ("override", "part"),
    [
        ("coevo.question_id_column=uid", "no column 'uid' (coevo.question_id_column)"),
        ("data.train_files=/no/such.parquet", "model or dataset cannot be read: "),
        ("actor_rollout_ref.rollout.n=1", "rollout.n=1 makes no groups"),
        (
            "data.max_prompt_length=4",
            "data.max_prompt_length is 4; raise it, or set data.filter_overlong_prompts=True",
        ),
    ],
)
def test_what_cannot_be_read_is_one_sentence(overrides: Any, override: str, part: str) -> None:
    told = ended(overrides("http://127.0.0.1:9/v1", override))
    assert told.startswith("error: ")
    assert part in told
    assert "\n" not in told


def test_rows_that_are_far_fewer_questions(
    overrides: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(tmp_path / "train.parquet", rows()[:1] * 24)
    with openai_server("ready") as server:
        ended(overrides(server.base))
    assert "24 rows are 1 question" in words(capsys)


@pytest.mark.parametrize(
    ("override", "epochs", "steps"),
    [
        ("trainer.total_epochs=2", 2.0, 4),
        ("trainer.total_training_steps=3", 1.5, 3),
        ("trainer.total_training_steps=99", 3.0, 6),
    ],
)
def test_the_workload(overrides: Any, override: str, epochs: float, steps: int) -> None:
    config = compose("ppo_trainer", overrides=overrides("http://127.0.0.1:9/v1", override))
    expected = Workload(questions=3, group_size=4, epochs=epochs, steps=steps, rows=9)
    assert workload(config, 9, 3) == expected  # the ninth row is in no batch


@pytest.mark.long
def test_the_real_command_ends_before_ray_starts(overrides: Any, tmp_path: Path) -> None:
    with openai_server(401) as server:
        command = [sys.executable, "-m", "verl.trainer.main_ppo", *overrides(server.base)]
        run = subprocess.run(
            [*command, f"hydra.run.dir={tmp_path / 'hydra'}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
    assert run.returncode == 1, run.stderr
    assert "does not answer: AuthenticationError" in " ".join(run.stdout.split())
    assert "Traceback" not in run.stderr
    assert "ray init" not in run.stdout
