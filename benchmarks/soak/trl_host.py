"""Run TRL's GRPOTrainer on one or more ranks, each a fork of this process with the heavy libraries."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Final

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # as prompt_coevo has it

import litellm  # noqa: F401  (every attempt would spend seconds on it)
import trl_run
from evidence import parts
from job import Job

REPEATS: Final = True
"""Whether two runs without a kill are alike."""
METHODS: Final = tuple(trl_run.METHODS)
EPOCH: Final = trl_run.EPOCH
"""Steps. Started again behind its last one, a Trainer of transformers trains one more step if the epoch is
not over, with or without a callback."""
_PATIENCE_S: Final = 60.0


class Attempt:
    """One start of a run. It must be waited for until it has `ended`, or killed."""

    def __init__(self, folder: Path, address: str, job: Job) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._folder = output = folder
        if job.new_folders:
            output = _part(folder)
        self._pids = [_fork(folder, output, address, job, rank, port) for rank in range(job.ranks)]

    def ended(self) -> bool:
        """Tell whether all ranks have ended. Raises RuntimeError if one failed by itself."""
        for pid in list(self._pids):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self._pids.remove(pid)
                if status:
                    self.kill()
                    raise RuntimeError(f"the run failed by itself: see {self._folder}/log.txt")
        return not self._pids

    def kill(self) -> None:
        """Kill all ranks at once."""
        for pid in self._pids:
            os.kill(pid, signal.SIGKILL)
        self._reap()

    def kill_one(self, rng: random.Random) -> None:
        """Kill one rank; the others continue until a launcher ends them."""
        pid = rng.choice(self._pids)
        os.kill(pid, signal.SIGKILL)
        time.sleep(rng.uniform(0, 1.0))
        for other in self._pids:
            os.kill(other, signal.SIGTERM)
        deadline = time.monotonic() + _PATIENCE_S
        while self._pids and time.monotonic() < deadline:
            self._pids = [one for one in self._pids if not os.waitpid(one, os.WNOHANG)[0]]
            time.sleep(0.01)
        self.kill()

    def pause(self, seconds: float) -> None:
        """Stop all ranks, as on a suspended machine."""
        for pid in self._pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        for pid in self._pids:
            os.kill(pid, signal.SIGCONT)

    def _reap(self) -> None:
        for pid in self._pids:
            os.waitpid(pid, 0)
        self._pids = []


def _part(folder: Path) -> Path:
    """Return a new output folder. A run without a checkpoint cannot resume in one, so it has its last."""
    earlier = parts(folder)
    if earlier and not trl_run.whole_checkpoints(folder):
        return earlier[-1]
    new = folder / f"part-{len(earlier):03d}"
    new.mkdir()
    return new


def unfinished(folder: Path) -> Iterable[Path]:
    """Return incomplete checkpoints."""
    return (
        path for path in folder.rglob("checkpoint-*") if not (path / "trainer_state.json").exists()
    )


def lose_a_checkpoint(folder: Path) -> None:
    """Delete the last checkpoint, if there is another one before it."""
    whole = trl_run.whole_checkpoints(folder)
    if len(whole) > 1:
        shutil.rmtree(whole[-1])


def _fork(folder: Path, output: Path, address: str, job: Job, rank: int, port: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    status = 1
    try:
        if job.ranks > 1:
            os.environ.update(
                RANK=str(rank),
                LOCAL_RANK=str(rank),
                WORLD_SIZE=str(job.ranks),
                LOCAL_WORLD_SIZE=str(job.ranks),
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(port),
                ACCELERATE_USE_CPU="true",
                GLOO_SOCKET_IFNAME="lo",
            )
        trl_run.train(folder, output, address, job)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
