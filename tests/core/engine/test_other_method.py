"""Check that a checkpoint of one method continues with another one under `resume = "force"`."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from helpers.journals import INSPO, P2O, STREAM
from prompt_coevo import Coevolution, Settings
from prompt_coevo.engine.state import plugin_states
from prompt_coevo.errors import StateError
from prompt_coevo.testing.scripted_world import QUESTIONS, ScriptedPolicy, helpful_reply, rolled_out
from prompt_coevo.testing.scripted_world import rule as judge

METHODS = {"stream": STREAM, "p2o": P2O, "inspo": INSPO}


def engine(folder: Path, method: str, **changes: Any) -> Coevolution:
    reflection = {"function": helpful_reply, "max_calls": 100}
    settings = Settings(**METHODS[method], reflection=reflection, **changes)
    return Coevolution.from_settings(settings, output_dir=folder)


def train(engine: Coevolution) -> dict[str, Any]:
    """Train for two epochs and return the state at the end."""
    policy, ids = ScriptedPolicy(), list(QUESTIONS)
    with policy.open():
        engine.begin(policy)
        for _ in range(2):
            for step in range(3):
                plan = engine.plan(ids[step::3], 4)
                engine.observe([rolled_out(one, judge) for one in plan])
                engine.step_end(policy)
            engine.epoch_end(policy)
        state = json.loads(json.dumps(engine.state_dict()))
        engine.end(policy)
    return dict(state)


@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(METHODS, 2)))
def test_another_method_starts_without_a_state_if_it_is_forced_to(
    old: str, new: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = engine(tmp_path, old)
    state = train(first)
    calls = first.metrics()["coevo/reflection_calls"]
    assert calls > 0
    with pytest.raises(StateError, match=f'the state of {old!r}, which is not active.*"force"'):
        engine(tmp_path, new).load_state_dict(state)

    caplog.clear()
    forced = engine(tmp_path, new, resume="force")
    forced.load_state_dict(state, "checkpoint-6")
    (told,) = [one for one in caplog.messages if one.startswith("resumed from checkpoint-6: ")]
    assert f"the state of {old!r}, not active in this run, is dropped" in told
    assert f"{new!r} starts without a state" in told
    assert "resumed as another run: algorithms was" in caplog.text
    assert forced.policy_version.step == first.policy_version.step
    assert forced.metrics()["coevo/reflection_calls"] == calls  # still counts under the cap
    saved = train(forced)
    states = plugin_states(saved)
    assert new in states
    assert old not in states
    assert forced.metrics()["coevo/reflection_calls"] > calls
    engine(tmp_path, new).load_state_dict(saved)  # its own checkpoints need no force
