"""Check how runs are made: side by side, each once, and not without the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import runner

BEGIN = """
    import os, signal, time
    from pathlib import Path
    from runner import run_all
    from store import ResultsError

    class Kept:
        keys = ()
        def keep_to_oneself(self): ...
"""
WAIT = """
    def train(world, arm, seed, draw):
        Path(f"{seed}.pid").write_text(str(os.getpid()))
        time.sleep(600)

    if __name__ == "__main__":
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        run_all([("w", "a", seed, 0) for seed in (0, 1)], train, Kept(), 2)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_command_leaves_no_run_behind(tmp_path: Path, number: signal.Signals) -> None:
    """Of the processes, only the command itself says that Ctrl-C interrupted it."""
    with subprocess.Popen(
        [sys.executable, _program(tmp_path, WAIT)],
        cwd=tmp_path,
        env=_environment(),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as command:
        workers = [_pid(tmp_path / f"{seed}.pid") for seed in (0, 1)]
        assert all(map(_lives, workers))
        if number == signal.SIGINT:
            os.killpg(command.pid, number)  # as a terminal does
        else:
            command.send_signal(number)
        _, said = command.communicate(timeout=120)
    assert said.count("Traceback") == (number == signal.SIGINT)
    _until(lambda: not any(map(_lives, workers)))


CRASH = """
    def train(world, arm, seed, draw):
        Path(f"{seed}.pid").write_text(str(os.getpid()))
        if seed == 0:
            while not Path("1.pid").exists():
                time.sleep(0.05)
            os.kill(os.getpid(), signal.HOW)
        time.sleep(600)

    if __name__ == "__main__":
        try:
            run_all([("w", "a", seed, 0) for seed in range(6)], train, Kept(), 2)
        except ResultsError as error:
            print(error)
"""


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_a_run_whose_process_is_killed_ends_the_others_and_is_reported(
    tmp_path: Path, how: str
) -> None:
    """As when memory runs out. The pool is broken then, and no further run begins."""
    command = subprocess.run(
        [sys.executable, _program(tmp_path, CRASH.replace("HOW", how))],
        cwd=tmp_path,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert "6 runs failed; the first: w 0, a, seed" in command.stdout
    assert sorted(file.name for file in tmp_path.glob("*.pid")) == ["0.pid", "1.pid"]


def _program(folder: Path, end: str) -> Path:
    file = folder / "runs.py"
    file.write_text(textwrap.dedent(BEGIN + end), "utf-8")
    return file


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(runner.__file__).parent), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


def _pid(file: Path) -> int:
    _until(lambda: file.exists() and bool(file.read_text()))
    return int(file.read_text())


def _until(true: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    """Tell whether a process runs, and is not merely waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
