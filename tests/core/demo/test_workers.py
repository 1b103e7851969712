"""Check how the processes of a demo's runs end; `../benchmarks/test_runner.py` has the others' tests."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

BEGIN = """
    import os, signal, time
    from pathlib import Path
    from prompt_coevo.demo.workers import workers
"""
FAILED = """
    def stay():
        Path("ready").touch()
        time.sleep(600)

    def fail():
        while not Path("ready").exists():
            time.sleep(0.01)
        raise ValueError("no such model")

    if __name__ == "__main__":
        with workers(2) as submit:
            submit(stay)
            submit(fail).result()
"""
IDLE = """
    if __name__ == "__main__":
        with workers(1) as submit:
            submit(os.getpid).result()
            os.kill(os.getpid(), signal.SIGKILL)
"""


def _run(folder: Path, program: str) -> str:
    """Run a program and return what it says, once none of its processes is left."""
    file = folder / "runs.py"
    file.write_text(textwrap.dedent(BEGIN + program), "utf-8")
    # Its processes have its standard error, so this also waits for them.
    ended = subprocess.run(
        [sys.executable, file], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    return ended.stderr


def test_a_call_that_fails_ends_the_others_in_silence(tmp_path: Path) -> None:
    said = _run(tmp_path, FAILED)
    assert said.rstrip().endswith("ValueError: no such model")
    assert "Exception ignored" not in said


def test_an_idle_process_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    assert "Traceback" not in _run(tmp_path, IDLE)
