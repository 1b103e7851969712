"""Ray's start on a busy machine: Ray gives a new node 30 seconds, which cannot be set, and raises."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

ATTEMPTS = 5
_TOO_LATE = "timed out during startup"


def patiently(init: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """`init(...)`, again where a node was not up in time. What it raises else, it raises."""
    for _ in range(ATTEMPTS - 1):
        try:
            return init(*arguments, **options)
        except Exception as error:
            if _TOO_LATE not in str(error):
                raise
    return init(*arguments, **options)


def start_patiently(module: Any) -> None:
    """Let `ray.init` of the module be patient."""
    module.init = functools.wraps(module.init)(functools.partial(patiently, module.init))
