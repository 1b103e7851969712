"""Run `python launch.py MODULE ARGUMENTS` as `python -m MODULE ARGUMENTS` with the stand-ins.

OpenRLHF calls `ray.init` without most settings. Those that `COEVO_TEST_RAY` holds as JSON are added to
its call, with the stand-ins for every worker.
"""

from __future__ import annotations

import functools
import json
import os
import runpy
import sys
from typing import Any

import ray

from standins.openrlhf import plugin
from standins.ray_start import patiently


def add_to_ray_init(settings: dict[str, Any]) -> None:
    """Add the settings to every `ray.init` call; they win, and a `runtime_env` is merged."""
    init = ray.init
    own_env = settings.pop("runtime_env", {})

    @functools.wraps(init)
    def with_settings(*arguments: Any, **options: Any) -> Any:
        runtime_env = {**(options.pop("runtime_env", None) or {}), **own_env}
        given = {**options, **settings, "runtime_env": runtime_env}
        return patiently(init, *arguments, **given)

    ray.init = with_settings


if __name__ == "__main__":
    module, *arguments = sys.argv[1:]
    add_to_ray_init(json.loads(os.environ["COEVO_TEST_RAY"]))
    plugin.install()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
