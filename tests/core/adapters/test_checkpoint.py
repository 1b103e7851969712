from __future__ import annotations

from pathlib import Path

import pytest

from prompt_coevo import Coevolution, Settings
from prompt_coevo.adapters.common.checkpoint import STATE_FILE, load_state, save_state
from prompt_coevo.errors import StateError


def engine() -> Coevolution:
    return Coevolution.from_settings(Settings(reflection={"function": str}))


def test_a_state_goes_into_a_folder_that_may_be_missing_and_comes_back(tmp_path: Path) -> None:
    before = engine()
    before.plan(["a"], 2)
    save_state(before, tmp_path / "step_1")
    after = engine()
    assert load_state(after, tmp_path / "step_1")
    assert after.plan(["a"], 2)[0].round == 1


def test_a_folder_without_a_state_is_said_and_leaves_the_engine(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fresh = engine()
    assert not load_state(fresh, tmp_path)
    assert caplog.messages == [f"{tmp_path} has no coevo_state.json: co-evolution starts anew"]
    assert fresh.plan(["a"], 2)[0].round == 0


def test_a_damaged_state_is_named(tmp_path: Path) -> None:
    (tmp_path / STATE_FILE).write_text('{"schema": 3, "step": 3, "checksum": "no"}')
    with pytest.raises(StateError, match=f"{STATE_FILE} is damaged"):
        load_state(engine(), tmp_path)
