"""Check README's command for OpenRLHF, with the checkout's root as the working directory."""

from __future__ import annotations

from pathlib import Path

from helpers.in_checkout import readme_command, run_in_checkout


def test_readmes_command_is_read(tmp_path: Path) -> None:
    module = "prompt_coevo.adapters.openrlhf"
    given = [*readme_command(module), "--coevo.reflection.modle", "openai/gpt-5"]
    run = run_in_checkout(module, given, tmp_path)
    assert run.returncode == 1
    assert run.stderr == (
        "error: unknown setting reflection.modle; did you mean reflection.model?\n"
    )
