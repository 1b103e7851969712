"""Start Python scripts from a process that has imported the heavy libraries already.

A run of VeRL starts ten processes one after the other, and each would spend 5 seconds importing torch and
others. `python -P warm_python.py SOCKET MODULES` imports them once, then forks for every
`python -IS warm_python.py SOCKET SCRIPT ARGUMENTS` (or `-m MODULE`), which is what Ray gets as
`py_executable`. The fork takes over the caller's files, folder, environment and arguments, and runs the
script as a fresh interpreter would; the caller ends with its status. The trainer is not among the modules,
because every process must load it itself, nor is Ray, which reads its environment on import.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

MODULES = (
    "aiohttp", "datasets", "fastapi", "hydra", "numpy", "omegaconf", "openai", "pandas", "peft",
    "pyarrow", "tensordict", "torch", "torch._dynamo", "torch.distributed",
    "torchdata.stateful_dataloader", "transformers", "uvicorn",
)  # fmt: skip


def server_command(path: Path, modules: Sequence[str] = MODULES) -> list[str]:
    """Starts the process that has the libraries."""
    return [sys.executable, "-P", __file__, str(path), ",".join(modules)]


def client_command(path: Path) -> str:
    """Stands in for `python` in front of a script."""
    return f"{sys.executable} -IS {__file__} {path}"


def serve(path: str, modules: list[str]) -> None:
    """Import, then fork for ever. Returns in the forks only."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    for name in modules:
        try:
            import_module(name)
        except ImportError:
            continue
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            os.setpgrp()  # Ray kills the group of a worker that has ended
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            become(connection)
            return
        connection.close()


def become(connection: socket.socket) -> None:
    """Run what the caller asked for. This process and its caller end together."""
    size = int.from_bytes(connection.recv(4), "big")
    _, files, _, _ = socket.recv_fds(connection, 1, 3)
    data = b""
    while len(data) < size:
        data += connection.recv(size - len(data))
    job: dict[str, Any] = json.loads(data)
    for target, source in enumerate(files):
        os.dup2(source, target)
        os.close(source)
    os.chdir(job["folder"])
    not_theirs = _import_path()
    os.environ.clear()
    os.environ.update(job["environment"])
    tempfile.tempdir = None
    if "numpy" in sys.modules:  # the random module and torch look after themselves
        sys.modules["numpy"].random.seed()
    sys.argv = job["arguments"]
    as_module = sys.argv[0] == "-m"
    if as_module:
        del sys.argv[0]
    beside = os.getcwd() if as_module else str(Path(sys.argv[0]).parent)
    kept = [entry for entry in sys.path if entry not in not_theirs]
    sys.path[:] = [beside, *_import_path(), *kept]
    threading.Thread(target=_die_with_caller, args=(connection,), daemon=True).start()
    status = 1

    def report() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(bytes([status]))

    atexit.register(report)  # the first to come is the last to run
    try:
        if as_module:
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(sys.argv[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise


def _import_path() -> list[str]:
    return [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


def _die_with_caller(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.recv(1)  # it never sends anything, but the system reports its end
    os.kill(os.getpid(), signal.SIGKILL)


def ask(path: str, arguments: list[str]) -> None:
    """Have the script run, wait for its end, and end with its status, or with 1 if a signal ended it."""
    job = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
    data = json.dumps(job).encode()
    connection = socket.socket(socket.AF_UNIX)
    for _ in range(6000):
        try:
            connection.connect(path)
            break
        except OSError:
            time.sleep(0.1)
    connection.sendall(len(data).to_bytes(4, "big"))
    socket.send_fds(connection, [b"f"], [0, 1, 2])
    connection.sendall(data)
    status = connection.recv(1)
    sys.exit(status[0] if status else 1)


if __name__ == "__main__":
    if sys.flags.isolated:
        ask(sys.argv[1], sys.argv[2:])
    else:
        serve(sys.argv[1], sys.argv[2].split(","))
