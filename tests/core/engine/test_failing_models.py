"""Check that a run whose reflection model has every fault in turn ends with every call accounted for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from helpers.failing import FailingModel, ModelFault
from helpers.families import Families, knowing, run
from helpers.waits import waits_take_no_time
from prompt_coevo import Coevolution, Settings, registry
from prompt_coevo.candidates.border import cross

FAULTS = [fault for fault in get_args(ModelFault) if fault != "waits"]
MODEL: list[FailingModel] = []


@pytest.fixture(autouse=True)
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    waits_take_no_time(monkeypatch.setattr)
    registry.register("models", "failing", lambda reflection, initial_policy: MODEL[-1])
    yield
    registry.unregister("models", "failing")


@pytest.mark.parametrize("first", range(len(FAULTS)))
def test_a_run_survives_every_fault_in_turn(first: int, tmp_path: Path) -> None:
    MODEL.append(FailingModel(knowing, FAULTS[first:] + FAULTS[:first]))
    engine = Coevolution.from_settings(
        Settings(reflection={"backend": "failing", "concurrency": 1}),
        output_dir=tmp_path,
    )
    policy = Families()
    plans = run(engine, policy, 8)
    engine.end(policy)
    used = {one.template.text for plan in plans for one in plan if one.template} - {""}
    assert len(MODEL[-1].asked) > len(FAULTS)
    assert engine.metrics()["coevo/reflection_calls"] == len(MODEL[-1].asked)
    assert used, "nothing of what was answered well was tried"
    assert all(cross(text).text == text for text in used)
    assert not any("__class__" in text or "im_start" in text for text in used)
