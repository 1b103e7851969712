"""Run a documented shell script up to the command that it would start."""

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
    """Return the names of a trainer's scripts. Fails on scripts of a trainer without tests."""
    names = {path.name for path in EXAMPLES.glob("*.sh")}
    assert {name.partition("_")[0] for name in names} <= _TRAINERS
    return {name for name in names if name.startswith(f"{trainer}_")}


def run_script(
    script: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the script with these variables set; bash's trace is in stderr."""
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
    """Return the arguments that the script passes to `program`; a stub in the folder stands in for it."""
    stub, written = folder / program, folder / "arguments"
    stub.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" > '{written}'\n")
    stub.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    result = run_script(script, *arguments, **{**environment, "PATH": path})
    assert result.returncode == 0, result.stderr
    return written.read_text().split("\0")[:-1]


def longest_episode(agent: SearchAgentSettings) -> int:
    """Return the most tokens after a prompt: searching turns, their observations, and one more turn."""
    observed = agent.max_turns * (agent.observation_tokens + _TAGS)
    return (agent.max_turns + 1) * agent.turn_tokens + observed


def check_preset(name: str, given: Any) -> None:
    """Check that the script sets every value of the preset as it does; the agent has its own file."""
    _check(given, read_preset(name))


def _check(given: Any, wanted: dict[str, Any]) -> None:
    for name, value in wanted.items():
        if isinstance(value, dict):
            _check(given[name], value)
        else:
            assert given[name] == value, name  # raises if the script leaves it out
