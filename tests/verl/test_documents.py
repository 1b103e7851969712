"""Check the documents' commands and files for VeRL, composed by hydra with VeRL's configuration.

The quick start's arguments replace the rest of a command (`...`).
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_module
from hydra.utils import get_class
from omegaconf import OmegaConf
from verl.model_merger.base_model_merger import parse_args
from verl.utils.config import validate_config

from helpers.documented import Block, blocks_for, documented_commands
from helpers.documented_commands import Command
from helpers.example_scripts import EXAMPLES, given_to
from helpers.verl_launch import launch
from prompt_coevo.adapters.verl.hydra_group import read_settings
from prompt_coevo.adapters.verl.search_agent import SearchAgentLoop
from prompt_coevo.retrieval.agent.settings import SearchAgentSettings

QUICKSTART = "verl_quickstart.sh"
MERGER = "verl.model_merger"
COMMANDS, MERGES = [], []
for one in documented_commands("verl"):
    (MERGES if one.values[0].module == MERGER else COMMANDS).append(one)


def composed(overrides: list[str]) -> Any:
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=overrides)


def quickstart(folder: Path) -> list[str]:
    option, module, *overrides = given_to("my-python", folder, QUICKSTART, PYTHON="my-python")
    assert (option, module) == ("-m", "verl.trainer.main_ppo")
    return overrides


def without_us(overrides: list[str]) -> list[str]:
    return [one for one in overrides if not one.startswith(("+coevo", "coevo."))]


@pytest.mark.parametrize("command", COMMANDS)
def test_hydra_composes_the_command(command: Command, tmp_path: Path) -> None:
    given = [word for word in command.words[3:] if word != "..."]
    config = composed([*without_us(quickstart(tmp_path)), *given])
    validate_config(config, use_reference_policy=False, use_critic=False)
    if any(word.startswith("+coevo") for word in given):
        launch(config)
        settings = read_settings(config.coevo)
        asks_nobody = settings.algorithms == ("hints",)
        assert settings.reflection.model == (None if asks_nobody else "openai/gpt-5")


@pytest.mark.parametrize("command", MERGES)
def test_verls_merger_reads_the_command(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["model_merger", *command.words[3:]])
    args = parse_args()
    assert (args.operation, args.backend) == ("merge", "fsdp")


@pytest.mark.parametrize("block", blocks_for("verl", "verl"), ids=str)
def test_an_agent_loops_file(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "agents.yaml"
    path.write_text(block.text, "utf-8")
    (loop,) = OmegaConf.to_container(OmegaConf.load(path))
    assert loop.pop("name") == "search_agent"
    assert get_class(loop.pop("_target_")) is SearchAgentLoop
    SearchAgentSettings(**loop)


def test_the_quick_start(tmp_path: Path) -> None:
    config = composed(quickstart(tmp_path))
    launch(config)
    validate_config(config, use_reference_policy=False, use_critic=False)
    assert read_settings(config.coevo).algorithms == ("stream",)
    score = runpy.run_path(config.reward.custom_reward_function.path)["compute_score"]
    assert [score("own", text, "4 2") for text in ("It is 4 2.", "4", "It is 2", "2 4 2")] == [
        *(1, 0, 0, 1),
    ]


def test_the_quick_start_changes_two_arguments(tmp_path: Path) -> None:
    text = (EXAMPLES / QUICKSTART).read_text("utf-8")
    overrides = quickstart(tmp_path)
    ours = set(overrides) - set(without_us(overrides))
    assert len(ours) == 2 == text.count(" # new\n")
    assert composed(without_us(overrides)).trainer.total_epochs == 5
