"""Check the documents' commands and files for OpenRLHF with its own parser and checks, and ours.

The quick start's arguments replace the rest of a command (`...`).
"""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from openrlhf.utils.agent import AgentExecutorBase

from helpers.documented import Block, blocks_for, documented_commands
from helpers.documented_commands import Command
from helpers.example_scripts import EXAMPLES, given_to
from helpers.openrlhf_run import check_openrlhf
from prompt_coevo.settings import Settings

OURS = "prompt_coevo.adapters.openrlhf"
QUICKSTART = "openrlhf_quickstart.sh"
COMMANDS = documented_commands("openrlhf")


def quickstart(folder: Path) -> tuple[str, list[str]]:
    """Return its module and its arguments."""
    option, module, *arguments = given_to("my-python", folder, QUICKSTART, PYTHON="my-python")
    assert option == "-m"
    return module, arguments


def without_us(arguments: list[str]) -> list[str]:
    ours = [place for place, word in enumerate(arguments) if word.startswith("--coevo.")]
    return [word for place, word in enumerate(arguments) if {place, place - 1}.isdisjoint(ours)]


def checked(folder: Path, module: str, arguments: list[str]) -> dict[str, Any]:
    result = check_openrlhf(folder, module, arguments)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    found: dict[str, Any] = json.loads((folder / "args.json").read_text())
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_openrlhf_reads_the_command(command: Command, tmp_path: Path) -> None:
    given = [word for word in command.words[3:] if word != "..."]
    _, stock = quickstart(tmp_path)
    if not any(word.startswith("--coevo.") for word in given):
        module = "openrlhf.cli.train_ppo_ray"  # otherwise a method is required
    else:
        module = str(command.module)
    args = checked(tmp_path, module, [*without_us(stock), *given])
    if module == OURS:
        settings = Settings(**args["coevo"]["values"])
        asks_nobody = settings.algorithms == ("hints",)
        assert settings.reflection.model == (None if asks_nobody else "openai/gpt-5")


@pytest.mark.parametrize("block", blocks_for("openrlhf", "openrlhf"), ids=str)
def test_an_agents_file(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "agent.py"
    path.write_text(block.text, "utf-8")
    assert issubclass(runpy.run_path(str(path))["AgentExecutor"], AgentExecutorBase)


def test_the_quick_start(tmp_path: Path) -> None:
    module, arguments = quickstart(tmp_path)
    assert module == OURS
    args = checked(tmp_path, module, arguments)
    assert Settings(**args["coevo"]["values"]).algorithms == ("stream",)
    reward = runpy.run_path(args["reward"]["remote_url"][0])["reward_func"]
    queries = ["<user> q <assistant> It is 4 2.<end>", "<user> q <assistant> 4 <end> "]
    found = reward(queries, ["<user> q <assistant>"] * 2, ["4 2", "4 2"])
    assert found["rewards"].tolist() == [1, 0]


def test_the_quick_start_changes_three_lines(tmp_path: Path) -> None:
    lines = (EXAMPLES / QUICKSTART).read_text("utf-8").splitlines()
    assert len([line for line in lines if " # new" in line and not line.startswith("#")]) == 3
    _, arguments = quickstart(tmp_path)
    stock = without_us(arguments)
    assert len(arguments) - len(stock) == 4
    assert checked(tmp_path, "openrlhf.cli.train_ppo_ray", stock)["train"]["num_episodes"] == 5
