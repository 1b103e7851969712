"""Extend Ray's start on a busy machine: Ray's code gives a new node a constant 30 seconds."""

from __future__ import annotations

import functools
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
