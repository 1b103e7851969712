"""Share one Ray between several runs of a trainer: half of a short run is Ray's start.

As a script it starts Ray, writes its address, and stays until it is killed; Ray's daemons end with it.
"""

from __future__ import annotations

import atexit
import functools
import json
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from helpers.ray_run import RayRun, warm_server
from helpers.warm_python import client_command


class RayCluster(RayRun):
    """Run Ray, and the process that all others of its runs are forked from, until this process ends.

    The runs find `modules` imported, under the environment variables in `settings`.
    """

    def __init__(self, folder: Path, modules: Sequence[str], settings: Mapping[str, str]) -> None:
        super().__init__(folder)
        environment = self._environment(self._import_path({}), settings)
        self.python = client_command(warm_server(tuple(modules), tuple(environment.items())))
        arguments = {
            "num_cpus": 32,  # logical; with 8 the placement group never comes
            "num_gpus": 1,  # that does not exist
            "include_dashboard": False,
            "object_store_memory": 200_000_000,
            "_temp_dir": str(self._ray),
        }
        command = [sys.executable, "-P", __file__, str(self._written), json.dumps(arguments)]
        self._process = self._popen(command, environment)
        atexit.register(self.kill)

    @functools.cached_property
    def address(self) -> str:
        """Return the address to connect to, as soon as Ray runs."""
        while not self._written.exists():
            if self._process.poll() is not None:
                raise RuntimeError(f"Ray does not start:\n{self.result().tail}")
            time.sleep(0.05)
        return self._written.read_text()

    def metrics(self) -> dict[int, dict[str, float]]:
        return {}

    @property
    def _written(self) -> Path:
        return self._logs / "address"


@functools.cache
def shared_cluster(modules: tuple[str, ...], settings: tuple[tuple[str, str], ...]) -> RayCluster:
    """Return one cluster for all tests of this process."""
    folder = Path(tempfile.mkdtemp(prefix="rv", dir="/tmp"))
    return RayCluster(folder, modules, dict(settings))


if __name__ == "__main__":
    import ray

    from standins.ray_start import patiently

    started = patiently(ray.init, **json.loads(sys.argv[2]))
    part = Path(sys.argv[1] + ".part")
    part.write_text(started.address_info["gcs_address"])
    part.rename(sys.argv[1])
    threading.Event().wait()
