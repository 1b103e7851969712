"""Check how the processes of a demo's runs end; `../benchmarks/test_runner.py` has the others' tests."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

PROGRAM = """
    import atexit, threading, time
    from pathlib import Path
    from prompt_coevo.demo import workers

    leaving = threading.Event()

    class Late(threading.Event):
        def set(self):
            leaving.wait()
            super().set()

    def leave():
        leaving.set()
        workers._ending.wait()
        time.sleep(0.3)
        Path("left").touch()

    def fail():
        workers._ending = Late()  # its thread notices the end when the process is already leaving
        atexit.register(leave)
        raise ValueError("no such model")

    if __name__ == "__main__":
        with workers.workers(1) as submit:
            submit(fail).result()
"""


def test_a_process_whose_call_failed_leaves_in_order_and_in_silence(tmp_path: Path) -> None:
    """Else a user sees a traceback of what a library does at its exit, or finds its temporary files."""
    file = tmp_path / "runs.py"
    file.write_text(textwrap.dedent(PROGRAM), "utf-8")
    ended = subprocess.run(
        [sys.executable, file], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.stderr.rstrip().endswith("ValueError: no such model")
    assert "Exception ignored" not in ended.stderr
    assert (tmp_path / "left").exists()
