"""Check the notebook: its cells run in order in a fresh kernel, and the policy learns."""

from __future__ import annotations

import json
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
assert names["journal"].exists()
print("RESULT", names["before"], names["after"], names["trainer"].state.global_step)
"""


def test_it_is_a_notebook_without_outputs() -> None:
    data = json.loads(NOTEBOOK.read_text("utf-8"))
    assert (data["nbformat"], data["metadata"]["kernelspec"]["name"]) == (4, "python3")
    assert len({cell["id"] for cell in data["cells"]}) == len(data["cells"])
    for cell in data["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)


def test_its_cells_run_and_the_policy_learns_what_it_did_not_know(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-P", "-c", RUN, NOTEBOOK],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert "stream.tua" in run.stdout  # the mistake that it shows is reported
    (result,) = re.findall(r"^RESULT (\S+) (\S+) (\d+)$", run.stdout, re.MULTILINE)
    before, after, steps = map(float, result)
    assert steps == 48
    assert before < 0.02
    assert after > before + 0.1
