"""Check commands other than VeRL's own, started as a user would; none gets as far as Ray."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MAIN = """
import hydra

@hydra.main(config_path="pkg://verl.trainer.config", config_name="ppo_trainer", version_base=None)
def main(config):
    {body}

if __name__ == "__main__":
    main()
"""
OWN_TRAINER = "print('a trainer of its own')"
FLAGS = ("+coevo=stream", "coevo.reflection.model=openai/teacher", "actor_rollout_ref.rollout.n=4")


def started(folder: Path, body: str, *flags: str) -> subprocess.CompletedProcess[str]:
    (folder / "main_dapo.py").write_text(MAIN.format(body=body), "utf-8")
    command = [sys.executable, "main_dapo.py", *flags, f"hydra.run.dir={folder}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_recipes_main_that_builds_its_own_trainer_is_refused(tmp_path: Path) -> None:
    done = started(tmp_path, OWN_TRAINER, *FLAGS)
    assert (done.returncode, done.stdout) == (1, "")
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith("error: +coevo works with python -m verl.trainer.main_ppo, and ")
    assert str(tmp_path / "main_dapo.py") in said
    assert "algorithm.filter_groups.enable=True" in said


def test_without_the_flag_it_is_none_of_our_business(tmp_path: Path) -> None:
    done = started(tmp_path, OWN_TRAINER)
    assert (done.returncode, done.stdout) == (0, "a trainer of its own\n"), done.stderr


@pytest.mark.parametrize("value", ["True", "true"])
def test_a_main_that_uses_verls_says_so(tmp_path: Path, value: str) -> None:
    body = "print(config.trainer.v1.trainer_mode)"
    done = started(tmp_path, body, *FLAGS, f"hydra.callbacks.coevo.own_main={value}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "coevo"


def test_one_that_says_so_is_checked_like_any_other(tmp_path: Path) -> None:
    wrong = "actor_rollout_ref.rollout.n=1"
    done = started(tmp_path, OWN_TRAINER, *FLAGS, wrong, "hydra.callbacks.coevo.own_main=True")
    assert (done.returncode, done.stdout) == (1, "")
    assert "rollout.n=1 makes no groups" in done.stderr
