"""Check the notebook: its cells run in order in a fresh kernel, and the policy learns what it shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "two_minutes.ipynb"

# Cells are plain Python, so that a kernel is not needed: each is compiled by itself, and all share one
# namespace. A cell's last value is not shown.
RUN = """
import json, sys
names = {"__name__": "__main__"}
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
print("RESULT", *names["alone_accuracy"].values.values())
print("RESULT", *names["accuracy"].values.values())
"""


def test_its_outputs_are_of_one_run_from_top_to_bottom() -> None:
    text = NOTEBOOK.read_text("utf-8")
    data = json.loads(text)
    assert (data["nbformat"], data["metadata"]["kernelspec"]["name"]) == (4, "python3")
    assert len({cell["id"] for cell in data["cells"]}) == len(data["cells"])
    cells = [cell for cell in data["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = [output["output_type"] for cell in cells for output in cell["outputs"]]
    assert "error" not in kinds
    assert "image/png" in text
    assert not re.search(r"/(root|home|tmp|Users)/", text)


def test_its_cells_run_and_the_policy_learns_what_it_did_not_know(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-P", "-c", RUN, NOTEBOOK],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert "stream.tua" in run.stdout  # the mistake that it shows is reported
    alone, learned = (
        list(map(float, line.split()))
        for line in re.findall(r"^RESULT (.*)$", run.stdout, re.MULTILINE)
    )
    assert len(alone) == len(learned) == 7
    assert learned[0] < 0.02
    assert learned[-1] > max(alone) + 0.1
