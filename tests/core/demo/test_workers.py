"""Check how the processes of a demo's runs end; `../benchmarks/test_runner.py` has the others' tests."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

BEGIN = """
    import atexit, os, signal, sys, threading, time
    from pathlib import Path
    from prompt_coevo.demo import workers
"""
LATE = """
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
IDLE = """
    def call():
        atexit.register(Path("left").touch)

    if __name__ == "__main__":
        with workers.workers(1) as submit:
            submit(call).result()
            os.kill(os.getpid(), signal.SIGKILL)
"""
DELETING = """
    import multiprocessing

    class Slow:
        def __del__(self):
            if multiprocessing.parent_process():
                Path("left").touch()
                time.sleep(5)

    def call(slow):
        pass

    if __name__ == "__main__":
        with workers.workers(1) as submit:
            submit(call, Slow()).result()
            while not Path("left").exists():
                time.sleep(0.01)
            sys.exit(1)
"""
DELETING_IN_A_CALL = """
    class Slow:
        def __del__(self):
            Path("ready").touch()
            time.sleep(60)

    def call():
        slow = Slow()
        try:
            del slow
            time.sleep(60)
        finally:
            Path("left").touch()

    if __name__ == "__main__":
        with workers.workers(1) as submit:
            submit(call)
            while not Path("ready").exists():
                time.sleep(0.01)
            sys.exit(1)
"""
BROKEN = """
    def survive():
        try:
            Path("ready").touch()
            time.sleep(5)
        finally:
            time.sleep(0.3)
            Path("left").touch()

    def die():
        while not Path("ready").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)

    if __name__ == "__main__":
        with workers.workers(2) as submit:
            submit(survive)
            submit(die).result()
"""


def _run(folder: Path, program: str) -> str:
    """Run a program and return what it says; then `left` is there, or never will be."""
    file = folder / "runs.py"
    file.write_text(textwrap.dedent(BEGIN + program), "utf-8")
    # Its processes have its standard error, so this also waits for them.
    ended = subprocess.run(
        [sys.executable, file], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    return ended.stderr


def test_a_process_whose_call_failed_leaves_in_order_and_in_silence(tmp_path: Path) -> None:
    """Else a user sees a traceback of what a library does at its exit, or finds its temporary files."""
    said = _run(tmp_path, LATE)
    assert said.rstrip().endswith("ValueError: no such model")
    assert "Exception ignored" not in said
    assert (tmp_path / "left").exists()


def test_an_idle_process_leaves_in_order_when_its_parent_is_killed(tmp_path: Path) -> None:
    _run(tmp_path, IDLE)
    assert (tmp_path / "left").exists()


def test_a_second_signal_does_not_interrupt_how_a_call_ends(tmp_path: Path) -> None:
    """A pool that breaks sends one, and the end of the block another."""
    assert "BrokenProcessPool" in _run(tmp_path, BROKEN)
    assert (tmp_path / "left").exists()


@pytest.mark.parametrize("program", [DELETING, DELETING_IN_A_CALL])
def test_a_process_that_ends_while_it_deletes_something_leaves_in_order_and_in_silence(
    tmp_path: Path, program: str
) -> None:
    assert _run(tmp_path, program) == ""
    assert (tmp_path / "left").exists()
