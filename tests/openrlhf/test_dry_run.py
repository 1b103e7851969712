"""Check `--coevo.preflight.dry_run true`: the real command, which ends where Ray would start."""

from __future__ import annotations

from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.openrlhf_run import check_openrlhf, rows, write_rows
from helpers.openrlhf_world import reflection
from prompt_coevo.adapters.openrlhf.checks import workload
from prompt_coevo.settings.method import Workload
from standins.openai_server import openai_server
from worlds.pairs.world import base_policy_path


def dry_run(folder: Path, base: str, *flags: str, repeated: int = 1) -> CompletedProcess[str]:
    write_rows(folder / "train.jsonl", rows() * repeated)
    arguments = [
        f"--actor.model_name_or_path={base_policy_path()}",
        *("--reward.remote_url=reward.py", "--vllm.num_engines=1"),
        *(f"--data.prompt_dataset={folder / 'train.jsonl'}", "--data.apply_chat_template"),
        *("--data.input_key=input", "--data.label_key=label", "--data.max_len=146"),
        *("--rollout.max_new_tokens=18", "--rollout.batch_size=4"),
        *("--rollout.n_samples_per_prompt=4", "--rollout.micro_batch_size=16"),
        *("--train.num_episodes=3", "--algo.advantage.estimator=group_norm"),
        f"--ckpt.path={folder / 'checkpoints'}",
        *("--coevo.method", "stream", "--coevo.preflight.dry_run", "true"),
        *(*reflection(base), "--coevo.preflight.reflection", "refuse", *flags),
    ]
    return check_openrlhf(folder, "prompt_coevo.adapters.openrlhf", arguments)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody")


def words(run: CompletedProcess[str]) -> str:
    return " ".join(run.stdout.split())


def test_a_run_that_may_begin(tmp_path: Path) -> None:
    with openai_server("ready") as server:
        run = dry_run(tmp_path, server.base)
        assert len(server.requests) == 1
    assert run.returncode == 0, run.stderr
    for part in (
        "the reflection model 'openai/teacher' answered",
        "8 questions in 1 shape",
        "an epoch is 8 questions × 4 = 32 training rollouts; the run has 3 epochs, 6 steps",
        "none was made",
        "no problem",
    ):
        assert part in words(run), part
    assert not (tmp_path / "args.json").exists()  # nothing after the check ran
    assert not (tmp_path / "checkpoints").exists()


def test_rows_that_are_far_fewer_questions(tmp_path: Path) -> None:
    with openai_server("ready") as server:
        run = dry_run(tmp_path, server.base, repeated=3)
    assert "24 rows are 8 questions" in words(run)
    assert "an epoch is 24 rows × 4 = 96 training rollouts" in words(run)


def test_a_dead_model_and_a_run_of_one_episode(tmp_path: Path) -> None:
    with openai_server(404) as server:
        run = dry_run(
            tmp_path, server.base, "--train.num_episodes=1", "--coevo.stream.first_sight=false"
        )
    assert run.returncode == 1
    assert "the reflection model 'openai/teacher' does not answer" in words(run)
    assert "no template will ever be used, because the run has one epoch" in words(run)
    assert "2 problems" in words(run)


@pytest.mark.parametrize(
    ("flag", "part"),
    [
        ("--coevo.question_id_column=uid", "no column 'uid' (question_id_column)"),
        ("--data.prompt_dataset=/no/such.jsonl", "model or dataset cannot be read: "),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, flag: str, part: str) -> None:
    run = dry_run(tmp_path, "http://127.0.0.1:9/v1", flag)
    assert run.returncode == 1
    told = run.stderr.splitlines()[-1]
    assert told.startswith("error: ")
    assert part in told
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(("prompts", "steps"), [(8, 6), (9, 6), (3, None)])
def test_the_workload(prompts: int, steps: Any) -> None:
    args = SimpleNamespace(
        rollout=SimpleNamespace(batch_size=4, n_samples_per_prompt=4),
        train=SimpleNamespace(num_episodes=3),
    )
    assert workload(args, prompts, 2) == Workload(
        questions=2, group_size=4, epochs=3, steps=steps, rows=prompts
    )
