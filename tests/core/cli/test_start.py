"""Check what the command line imports before it runs, because it must answer at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "jinja2",
    "litellm",
    "numpy",
    "prompt_coevo.demo.world",
    "prompt_coevo.engine.coevolution",
    "prompt_coevo.algorithms.all_settings",
    "pydantic_settings",
    "torch",
    "transformers",
    "yaml",
}
CODE = """
import sys
from prompt_coevo.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["--version"],
        ["demo", "--help"],
        ["check", "--help"],
        ["smoke", "--help"],
        ["report", "--help"],
        ["retrieval", "--help"],
        ["presets", "list"],
        ["presets", "show", "p2o"],
        ["plugins"],
        ["tail", ".", "--no-follow"],
    ],
    ids=" ".join,
)
def test_a_command_imports_what_it_needs(command: list[str]) -> None:
    shown = subprocess.run(
        [sys.executable, "-P", "-c", CODE, *command], capture_output=True, text=True, check=False
    )
    loaded = set(shown.stderr.split())
    assert "prompt_coevo.cli" in loaded
    assert not loaded & HEAVY
    if command == ["--help"]:  # otherwise typer itself may import pydantic to read arguments
        assert "pydantic" not in loaded
