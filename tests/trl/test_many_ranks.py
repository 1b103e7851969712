"""Check P2O's distillation in several processes of the real GRPOTrainer, on a stream.

ZeRO runs where deepspeed is installed, on the CPU. Its processes are made known to accelerate, which sees
them on accelerators alone (`many_ranks.py`). FSDP has no test: accelerate makes plain DDP of it on a CPU.
"""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from helpers.torchrun import on_ranks

SCRIPT = Path(__file__).parent / "many_ranks.py"
ZERO = pytest.mark.skipif(find_spec("deepspeed") is None, reason="deepspeed is not installed")
WAYS = [
    pytest.param("ddp", 4, "DistributedDataParallel"),
    pytest.param("zero2", 2, "DeepSpeedEngine", marks=ZERO),
    pytest.param("zero3", 2, "DeepSpeedEngine", marks=ZERO),
]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "count", "shared_by"), WAYS)
def test_all_ranks_sample_under_the_plan_and_train_on_the_question(
    kind: str, count: int, shared_by: str, tmp_path: Path
) -> None:
    on_ranks(count, SCRIPT, str(tmp_path), kind)
    reports = [json.loads((tmp_path / f"rank{n}.json").read_text()) for n in range(count)]
    assert {one["shared_by"] for one in reports} == {shared_by}
    assert {one["processes"] for one in reports} == {count}
    assert len({one["weights"] for one in reports}) == 1
    assert len({tuple(one["known"]) for one in reports}) == 1
    assert len(reports[0]["known"]) == 8  # half of them came in training
    assert reports[0]["searches"] == 2
    assert any(" means " in prompt for one in reports for prompt in one["sampled"])
    for one in reports:
        bare = [re.sub("<user> .*? use ", "<user> use ", prompt) for prompt in one["sampled"]]
        assert sorted(one["trained"]) == sorted(bare)
        assert not any(" means " in prompt for prompt in one["trained"])
