"""Configure the real vLLM in its build for CPUs, for all of its processes and `vllm serve`."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Self

from helpers.ray_run import HANGS_AFTER_S, inherited

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",  # otherwise gcc compiles the sampler's helpers at the first request
    "VLLM_CPU_CI_ENV": "1",  # no warm-up
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; otherwise vLLM compares a share of all memory with free memory
    "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # `LLM` has its engine in this process
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
}
"""Variables that every process of vLLM needs on a small machine without an accelerator."""

MODEL = "coevo"
"""The name under which `vllm serve` has the policy."""


def why_not() -> str | None:
    """Return a sentence that says why vLLM cannot run here, or None."""
    try:
        version("vllm-cpu")
    except PackageNotFoundError:
        return "vLLM's build for CPUs is not installed; `python dev.py nox -s vllm` does that"
    try:
        ctypes.CDLL("libnuma.so.1")
    except OSError:
        return "vLLM's build for CPUs needs libnuma.so.1 (Debian, Ubuntu: apt-get install libnuma1)"
    return None


class VllmServer:
    """Run `vllm serve` on a policy for TRL's server mode; started at once and ended on exit."""

    def __init__(self, policy: Path, log: Path) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{found.getsockname()[1]}"
        port = self.url.rpartition(":")[2]
        self._log = log
        options = [
            *("--served-model-name", MODEL, "--host", "127.0.0.1", "--port", port),
            *("--dtype", "float32", "--enforce-eager", "--max-model-len", "4096"),
            *("--hf-overrides", '{"max_position_embeddings": 4096}'),  # room for reflection
            *("--max-num-seqs", "64", "--logprobs-mode", "processed_logprobs"),
            *("--max-logprobs", "-1", "--enable-scale-out"),
            *("--weight-transfer-config", '{"backend": "nccl"}'),
            *("--distributed-executor-backend", "uni"),  # one process fewer that imports it all
        ]
        command = [str(Path(sys.executable).with_name("vllm")), "serve", str(policy), *options]
        # In this mode it answers /server_info and /collective_rpc, which TRL calls.
        environment = {**inherited(), **ENVIRONMENT, "VLLM_SERVER_DEV_MODE": "1"}
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self, timeout: float = HANGS_AFTER_S) -> None:
        """Wait until it answers. Raises RuntimeError with the end of its output if it has ended."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=10):
                    return
            except OSError:
                ended = self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                raise RuntimeError(
                    f"vllm serve is not up:\n{self._log.read_text('utf-8', 'replace')[-8000:]}"
                )
            time.sleep(0.2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it with all of its processes."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
