"""Check that the loop of docs/recipes.md learns with the new lines what it does not learn without them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from helpers.documented import ROOT

LOOP = ROOT / "docs" / "examples" / "own_loop.py"
LINES = LOOP.read_text("utf-8").splitlines(keepends=True)


def right(script: Path, folder: Path) -> int:
    """Return the percentage of questions answered right at the end, without a template."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("PROMPT_COEVO_")}
    done = subprocess.run(
        [sys.executable, "-P", script],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(re.findall(r"^right without a template: (\d+)%$", done.stdout, re.MULTILINE)[0])


def test_the_loop_learns_what_the_plain_one_does_not(tmp_path: Path) -> None:
    plain = tmp_path / "plain.py"
    plain.write_text("".join(line for line in LINES if not line.endswith("# new\n")), "utf-8")
    assert "coevo" not in plain.read_text("utf-8").split('"""', 2)[2]
    assert right(plain, tmp_path) < 5
    assert right(LOOP, tmp_path) > 30
    assert (tmp_path / "out" / "coevo" / "events.jsonl").exists()


def test_the_page_says_how_long_it_is() -> None:
    assert "in about a hundred lines" in (ROOT / "docs" / "recipes.md").read_text("utf-8")
    assert 90 <= len(LINES) <= 110


def test_the_quick_start_counts_what_there_is_to_type() -> None:
    new = sum(line.endswith("# new\n") for line in LINES)
    page = (ROOT / "docs" / "quickstart.md").read_text("utf-8")
    assert f"takes {new} lines" in page
