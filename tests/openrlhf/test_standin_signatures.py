"""The stand-in for vLLM's worker against OpenRLHF's own extension of it.

It is read from OpenRLHF's file: around it OpenRLHF imports vLLM, which is not in this environment. The
comparison with vLLM is `tests/real_vllm/test_standins.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from helpers.signatures import misfits, read_function
from standins.openrlhf import real_vllm
from standins.openrlhf.vllm.worker import Worker


@pytest.mark.parametrize(
    ("mine", "name"),
    [
        (Worker.init_process_group, "init_process_group"),
        (real_vllm._update_weight, "update_weight"),
    ],
)
def test_the_worker_is_called_as_openrlhfs(mine: Callable[..., Any], name: str) -> None:
    file = distribution("openrlhf").locate_file("openrlhf/trainer/ray/vllm_worker_wrap.py")
    assert misfits(mine, read_function(Path(str(file)), "WorkerWrap", name)) == []
