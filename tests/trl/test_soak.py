"""Check the soak in small: ten kills (SIGKILL) of real runs, see `benchmarks/soak`.

Stand-in: the reflection model, a separate server behind the real litellm.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak"


@pytest.mark.long
def test_ten_kills_change_no_decision_and_no_reply_is_paid_for_twice(tmp_path: Path) -> None:
    found = tmp_path / "soak.json"
    options = ("--kills", "10", "--steps", "12", "--methods", "both", "--json", str(found))
    command = [sys.executable, "-P", str(SOAK), *options, "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    said = json.loads(found.read_text())["trl"]
    assert said["broken"] == []
    assert sum(said["killed"].values()) == 10
    assert said["reused"] > 0
