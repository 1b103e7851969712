"""Starts Python scripts from a process that has imported the heavy libraries already.

A run of VeRL starts ten processes one after the other, and each would spend 5 seconds importing torch
and others. `python -P warm_python.py SOCKET MODULES` imports them once, then forks for every
`python -IS warm_python.py SOCKET SCRIPT ARGUMENTS`, which is what Ray gets as `py_executable`. The
fork takes over the caller's files, folder, environment and arguments, and runs the script as a
fresh interpreter would. Not among the modules: VeRL, which every process shall load by itself, and Ray,
which reads its environment when it is loaded.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

MODULES = (
    "aiohttp", "datasets", "fastapi", "hydra", "numpy", "omegaconf", "openai", "pandas", "peft",
    "pyarrow", "tensordict", "torch", "torch._dynamo", "torch.distributed",
    "torchdata.stateful_dataloader", "transformers", "uvicorn",
)  # fmt: skip


def server_command(path: Path) -> list[str]:
    """Starts the process that has the libraries."""
    return [sys.executable, "-P", __file__, str(path), ",".join(MODULES)]


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
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            become(connection)
            return
        connection.close()


def become(connection: socket.socket) -> None:
    """Turn into what the caller asked for. The connection stays open until this process ends."""
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
    os.environ.clear()
    os.environ.update(job["environment"])
    if "numpy" in sys.modules:  # the random module and torch look after themselves
        sys.modules["numpy"].random.seed()
    sys.argv = job["arguments"]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    connection.detach()
    runpy.run_path(sys.argv[0], run_name="__main__")


def ask(path: str, arguments: list[str]) -> None:
    """Have the script run, and wait for its end."""
    job = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
    data = json.dumps(job).encode()
    connection = socket.socket(socket.AF_UNIX)
    for _ in range(600):
        try:
            connection.connect(path)
            break
        except OSError:
            time.sleep(0.1)
    connection.sendall(len(data).to_bytes(4, "big"))
    socket.send_fds(connection, [b"f"], [0, 1, 2])
    connection.sendall(data)
    connection.recv(1)


if __name__ == "__main__":
    if sys.flags.isolated:
        ask(sys.argv[1], sys.argv[2:])
    else:
        serve(sys.argv[1], sys.argv[2].split(","))
