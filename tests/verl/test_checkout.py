"""Check README's command for VeRL, with the checkout's root as the working directory."""

from __future__ import annotations

from pathlib import Path

from omegaconf import OmegaConf

from helpers.in_checkout import readme_command, run_in_checkout


def test_readmes_command_knows_the_flag(tmp_path: Path) -> None:
    module = "verl.trainer.main_ppo"
    given = readme_command(module)
    run = run_in_checkout(module, [*given, "--cfg", "job"], tmp_path)
    assert run.returncode == 0, run.stderr[-2000:]
    config = OmegaConf.create(run.stdout)
    assert config.coevo.reflection.model == "openai/gpt-5"
    assert [word for word in given if word == f"+coevo={config.coevo.algorithms[0]}"]
