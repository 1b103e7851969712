"""Compare the stand-in for vLLM's worker with OpenRLHF's extension of the real one.

The extension is read from OpenRLHF's file, because importing it imports vLLM, which is not in this
environment. `tests/real_vllm/test_standins.py` compares with vLLM.
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
