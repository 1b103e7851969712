"""The documented shell scripts: runs one up to the command that it would start."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from prompt_coevo.retrieval.agent.settings import SearchAgentSettings
from prompt_coevo.settings.sources import read_preset

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
_TRAINERS = {"openrlhf", "verl"}
PAPERS_AGENT = SearchAgentSettings(
    url="http://127.0.0.1:8000", k=3, max_turns=4, turn_tokens=500, observation_tokens=500
)
"""Appendix B of INSPO, for 3B models."""
_TAGS = 20  # more tokens than the tags of an observation have


def scripts_for(trainer: str) -> set[str]:
    """The names of its scripts. None may belong to a trainer whose tests do not ask for them."""
    names = {path.name for path in EXAMPLES.glob("*.sh")}
    assert {name.partition("_")[0] for name in names} <= _TRAINERS
    return {name for name in names if name.startswith(f"{trainer}_")}


def run_script(
    script: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The script with variables of its own set; bash's trace is in stderr."""
    return subprocess.run(
        ["bash", str(EXAMPLES / script), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def given_to(
    program: str, folder: Path, script: str, *arguments: str, **environment: str
) -> list[str]:
    """The arguments for `program` at the script's end; a stub in the folder stands in for it."""
    stub, written = folder / program, folder / "arguments"
    stub.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" > '{written}'\n")
    stub.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    result = run_script(script, *arguments, **{**environment, "PATH": path})
    assert result.returncode == 0, result.stderr
    return written.read_text().split("\0")[:-1]


def longest_episode(agent: SearchAgentSettings) -> int:
    """The most tokens behind a prompt: turns that search, their observations, and one more turn."""
    observed = agent.max_turns * (agent.observation_tokens + _TAGS)
    return (agent.max_turns + 1) * agent.turn_tokens + observed


def check_preset(name: str, given: Any) -> None:
    """The script has to set every value of the preset, to what the preset says; the agent has a file of its
    own."""
    _check(given, read_preset(name))


def _check(given: Any, wanted: dict[str, Any]) -> None:
    for name, value in wanted.items():
        if isinstance(value, dict):
            _check(given[name], value)
        else:
            assert given[name] == value, name  # raises if the script leaves it out
