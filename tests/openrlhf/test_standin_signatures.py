"""The stand-in for vLLM's worker against OpenRLHF's own extension of it.

`tests/vllm/test_standins.py` has the comparison with vLLM, which is not in this environment.
"""

from __future__ import annotations

import pytest
from openrlhf.trainer.ray.vllm_worker_wrap import WorkerWrap

from helpers.signatures import misfits
from standins.openrlhf import real_vllm
from standins.openrlhf.vllm.worker import Worker


@pytest.mark.parametrize(
    ("mine", "real"),
    [
        (Worker.init_process_group, WorkerWrap.init_process_group),
        (real_vllm._update_weight, WorkerWrap.update_weight),
    ],
)
def test_the_worker_is_called_as_openrlhfs(mine: object, real: object) -> None:
    assert misfits(mine, real) == []  # type: ignore[arg-type]
