"""Extend Ray's start on a busy machine: Ray's code gives a new node a constant 30 seconds."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

STARTS_WITHIN_S = 900.0


def patiently(init: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call `ray.init(...)` with more time for the node to come up."""
    give_time(import_module("ray._private.services"))
    return init(*arguments, **options)


def start_patiently(module: Any) -> None:
    """Make the module's `ray.init` wait longer."""
    module.init = functools.wraps(module.init)(functools.partial(patiently, module.init))


def give_time(services: Any, seconds: float = STARTS_WITHIN_S) -> None:
    """Make `get_node`, which Ray polls until a timeout, answer only when the node is there."""
    original = services.get_node
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def get_node(*arguments: Any, **options: Any) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            try:
                return original(*arguments, **options)
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    services.get_node = get_node


def tell_ports(services: Any) -> None:
    """Tell a node the ports of its agents, which are in its options, before these start.

    Ray's code gives the agents a constant 15 seconds to tell their ports.
    """
    original = services.start_raylet
    if hasattr(original, "__wrapped__"):
        return
    raylet = import_module("ray._raylet")
    named = inspect.signature(original)

    @functools.wraps(original)
    def start_raylet(*arguments: Any, **options: Any) -> Any:
        given = named.bind(*arguments, **options).arguments
        for name in ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port"):
            raylet.persist_port(given["session_dir"], given["node_id"], name, given[name])
        return original(*arguments, **options)

    services.start_raylet = start_raylet
