"""Share starting, waiting, killing, and reading of JSON lines between runs on Ray."""

from __future__ import annotations

import atexit
import ctypes
import functools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from helpers.warm_python import server_command

HANGS_AFTER_S = 1800.0
"""Far longer than a run on a busy machine: it only ends hanging runs."""

_TESTS = Path(__file__).parents[1]
_RUN_MARKER = "COEVO_TEST_RUN"
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Result:
    """The results of one start."""

    returncode: int | None
    """Negative if a signal ended it, None if it is still running."""

    output: str
    """stdout and stderr of the driver, with the workers' output that Ray forwards."""

    server: list[dict[str, Any]]
    """The stand-in server's events, see `standins.verl.server` or `standins.openrlhf.vllm.engine`."""

    actor: list[dict[str, Any]]
    """The rows the loss got, see the recorder among the stand-ins."""

    metrics: dict[int, dict[str, float]]
    """Step to the trainer's metrics."""

    folder: Path
    """The run's folder; checkpoints are in `checkpoints/`, OpenRLHF's last policy in `model/`."""

    seconds: float

    @property
    def tail(self) -> str:
        """Return the end of the output, with long lines truncated."""
        return "\n".join(line[:200] for line in self.output.splitlines()[-60:])

    def generated(self) -> list[dict[str, Any]]:
        return [event for event in self.server if event["event"] == "generate"]

    def weights(self) -> list[dict[str, Any]]:
        return [event for event in self.server if event["event"] == "weights"]


class RayRun(ABC):
    """One start of a trainer. `wait`, `kill_when` or `kill` must end it; it is a context manager.

    A subclass starts it in its constructor, and sets `_process` to the driver.
    """

    _process: subprocess.Popen[bytes]

    def __init__(self, folder: Path) -> None:
        """Create a log folder for another start in the run's folder."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._logs = folder / f"start{len(list(folder.glob('start*')))}"
        self._logs.mkdir()
        self._ray = Path(tempfile.mkdtemp(prefix="rv", dir="/tmp"))  # socket paths have to be short
        self._processes: list[subprocess.Popen[bytes]] = []
        self._started = time.monotonic()

    def result(self) -> Result:
        """Return what can be read so far."""
        return Result(
            returncode=self._process.poll(),
            output=self._output.read_text(errors="replace"),
            server=self.server_log(),
            actor=self.actor_log(),
            metrics=self.metrics(),
            folder=self.folder,
            seconds=time.monotonic() - self._started,
        )

    @abstractmethod
    def metrics(self) -> dict[int, dict[str, float]]:
        """Return the metrics so far, by step."""

    def wait(self, timeout: float = HANGS_AFTER_S) -> Result:
        """Wait for its end. On a timeout, kill it and raise TimeoutError with the end of the output."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"no end after {timeout} s:\n{self.result().tail}") from None
        self._clean_up()
        return self.result()

    def kill_when(self, moment: Callable[[Self], bool], timeout: float = HANGS_AFTER_S) -> Result:
        """Kill everything with SIGKILL as soon as `moment(run)` holds; it may read the run's logs.

        Raises TimeoutError if it never does, and RuntimeError if the trainer ends before.
        """
        deadline = time.monotonic() + timeout
        while not moment(self):
            if self._process.poll() is not None:
                self._clean_up()
                raise RuntimeError(f"it ended before the moment to kill it:\n{self.result().tail}")
            if time.monotonic() > deadline:
                self.kill()
                raise TimeoutError(f"the moment never came:\n{self.result().tail}")
            time.sleep(0.02)
        self.kill()
        return self.result()

    def kill(self) -> None:
        """Send SIGKILL to the trainer and to all of its Ray processes."""
        self._clean_up()

    @property
    def driver(self) -> subprocess.Popen[bytes]:
        """Return the process that was started first."""
        return self._process

    def clean_up(self) -> None:
        """End the remaining processes of a run whose driver has ended."""
        self._clean_up()

    def server_log(self) -> list[dict[str, Any]]:
        return read_json_lines(self._logs / "server.jsonl")

    def actor_log(self) -> list[dict[str, Any]]:
        return read_json_lines(self._logs / "actor.jsonl")

    def left_over(self) -> list[int]:
        """Return the run's processes that still live.

        They are in one of its sessions, have its marker in their environment (some overwrite it with their
        title), or write into Ray's folder. Processes forked by `warm_server` end with their caller.
        """
        marker = f"{_RUN_MARKER}={self._ray.name}".encode()
        sessions = {process.pid for process in self._processes}
        found = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdecimal() or int(folder.name) == os.getpid():
                continue
            try:
                state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
                ours = (
                    int(session) in sessions
                    or marker in (folder / "environ").read_bytes()
                    or os.readlink(folder / "fd" / "1").startswith(str(self._ray))
                )
            except OSError:  # gone, a kernel thread, or not ours to look at
                continue
            if ours and state not in "ZX":
                found.append(int(folder.name))
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._clean_up()

    @property
    def _output(self) -> Path:
        return self._logs / "output.txt"

    def _popen(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        with self._output.open("ab") as output:
            process = subprocess.Popen(
                command,
                cwd=self._logs,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        self._processes.append(process)
        return process

    def _import_path(self, packages: Mapping[str, Path]) -> Path:
        """Make a folder to import `helpers`, `standins`, `worlds` and the packages from.

        Not tests/ itself, in which a trainer's name is the folder of its tests.
        """
        path = self._logs / "path"
        path.mkdir()
        own = {name: _TESTS / name for name in ("helpers", "standins")}
        own["worlds"] = _TESTS.parent / "benchmarks" / "worlds"
        for name, target in {**own, **packages}.items():
            (path / name).symlink_to(target)
        return path

    def _environment(self, path: Path, extra: Mapping[str, str]) -> dict[str, str]:
        return {
            **inherited(),
            "PYTHONPATH": str(path),
            "COEVO_TEST_SERVER_LOG": str(self._logs / "server.jsonl"),
            "COEVO_TEST_ACTOR_LOG": str(self._logs / "actor.jsonl"),
            _RUN_MARKER: self._ray.name,
            "HF_HUB_OFFLINE": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "OMP_NUM_THREADS": "1",
            "RAY_DEDUP_LOGS": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "disabled",  # otherwise it writes a token into the home folder
            "RAY_prestart_worker_first_driver": "0",  # otherwise one idle worker per logical CPU
            "TMPDIR": str(self._ray),  # where trainers leave locks of checkpoints
            "TOKENIZERS_PARALLELISM": "false",
            **extra,
        }

    def _clean_up(self) -> None:
        """Kill the remaining processes of the run, wherever Ray put them, and remove Ray's files."""
        deadline = time.monotonic() + HANGS_AFTER_S
        while left := self.left_over():
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            if time.monotonic() > deadline:
                raise RuntimeError(f"processes {left} of the run do not end")
            time.sleep(0.05)
        for process in self._processes:
            process.wait()
        shutil.rmtree(self._ray, ignore_errors=True)


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Read the complete lines; the last one may still be in progress."""
    if not path.exists():
        return []
    text = path.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


@functools.cache
def warm_server(modules: tuple[str, ...], settings: tuple[tuple[str, str], ...] = ()) -> Path:
    """Return the socket of a process with the modules imported, which all runs of these tests share.

    The settings are environment variables that the modules read when they are imported.
    """
    folder = Path(tempfile.mkdtemp(prefix="rv", dir="/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with (folder / "output.txt").open("ab") as output:
        process = subprocess.Popen(
            server_command(folder / "python", modules),
            env={**inherited(), **dict(settings)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
    atexit.register(process.kill)
    return folder / "python"


def inherited() -> dict[str, str]:
    """Return this process's environment, without the variables that decide how trainers run."""
    return {
        name: value
        for name, value in os.environ.items()
        # A dozen processes that each compile all of torch's Python files take minutes.
        if name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
        and not name.startswith(("PROMPT_COEVO_", "RAY_"))
    }


def _die_with_parent() -> None:
    """Ask Linux to kill this process when the tests are killed; Ray's daemons follow their driver."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
