"""Check what stays the same between two recordings of this code, and that `compare` reports the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "record_runs.py"


def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", TOOL, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_same_code_is_recorded_the_same_and_another_seed_is_not(tmp_path: Path) -> None:
    for name, seed in (("before", "0"), ("after", "0"), ("other", "1")):
        recorded = call("--only", "core-both", "--out", tmp_path / name, "--seed", seed)
        assert recorded.returncode == 0, recorded.stderr
    same = call("compare", tmp_path / "before", tmp_path / "after")
    assert same.returncode == 0
    assert "2 of 2 runs are the same" in same.stdout
    different = call("compare", tmp_path / "before", tmp_path / "other")
    assert different.returncode == 1
    assert "core-both.jsonl: " in different.stdout
    assert "0 of 2 runs are the same" in different.stdout


def test_a_difference_is_shown_at_its_place(tmp_path: Path) -> None:
    for name, reward in (("before", "0.5"), ("after", "0.25")):
        folder = tmp_path / name
        folder.mkdir()
        event = f'["journal", {{"event": "x", "rewards": [1.0, {reward}]}}]\n'
        (folder / "run.jsonl").write_text('["journal", {}]\n' + event)
    told = call("compare", tmp_path / "before", tmp_path / "after")
    assert told.returncode == 1
    assert "1 lines differ, first line 2[1]['rewards'][1]:\n  before: 0.5" in told.stdout


def test_a_missing_run_or_none_at_all_is_a_difference(tmp_path: Path) -> None:
    for name in ("before", "after", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "before" / "run.jsonl").write_text("[]\n")
    missing = call("compare", tmp_path / "before", tmp_path / "after")
    assert (missing.returncode, "there is no" in missing.stdout) == (1, True)
    assert call("compare", tmp_path / "empty", tmp_path / "after").returncode == 1
