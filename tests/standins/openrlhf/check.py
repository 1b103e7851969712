"""`python check.py FILE MODULE ARGUMENTS` is `python -m MODULE ARGUMENTS` up to OpenRLHF's first engine.

OpenRLHF has its parser and its checks under `__main__`, and further checks at the beginning of `train`.
They run as they are; what `train` calls in between is replaced, and no Ray is started. The arguments that
passed are written to the file as JSON.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import openrlhf.trainer.ray as engines
import openrlhf.utils as utils
import ray

_checked: list[Any] = []


def strategy(args: Any) -> SimpleNamespace:
    """Replace `get_strategy`, the first that gets the arguments; they may still be refused later."""
    _checked.append(args)
    return SimpleNamespace(print=lambda *_: None)


def placement_group(*_: Any, **__: Any) -> SimpleNamespace:
    """Replace the placement group that engines and training share."""
    return SimpleNamespace(ready=lambda: None)


def stop(*_: Any, **__: Any) -> NoReturn:
    """Replace `create_vllm_engines`: write the arguments and stop."""
    Path(file).write_text(json.dumps(_checked[0], default=vars))
    raise SystemExit(0)


if __name__ == "__main__":
    file, module, *arguments = sys.argv[1:]
    ray.is_initialized = lambda: True
    ray.get = lambda reference: reference
    ray.nodes = list
    # By its name `ray.util` has the function.
    sys.modules["ray.util.placement_group"].placement_group = placement_group  # type: ignore[attr-defined]
    utils.get_strategy = strategy
    engines.create_vllm_engines = stop
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
