"""Check the imports of README's script for TRL, with the checkout's root as the working directory."""

from __future__ import annotations

import subprocess
import sys

from helpers.documented import ROOT


def test_readmes_import_finds_the_adapter() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith("from prompt_coevo.adapters")]
    subprocess.run([sys.executable, "-c", line], cwd=ROOT, check=True)
