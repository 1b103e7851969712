"""Check that a run without a step left, as after a kill behind its last checkpoint, ends at its next start.

Stand-ins: platform, rollout server, and the reflection model's HTTP server.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.verl_run import run_verl
from helpers.verl_world import INSPO, events, reflection, teach
from standins.openai_server import openai_server


@pytest.mark.long
def test_what_is_due_after_training_is_done_by_the_next_start(tmp_path: Path) -> None:
    with openai_server(teach) as server:
        overrides = ["+coevo=inspo", *INSPO, *reflection(server.base), "trainer.save_freq=2"]
        overrides.append("coevo.inspo.evolution=after")
        env = {"OPENAI_API_KEY": "sk-test"}
        first = run_verl(tmp_path, overrides=overrides, env=env)
        asked = len(server.requests)
        again = run_verl(tmp_path, overrides=overrides, env=env)
    assert first.returncode == 0, first.tail
    assert again.returncode == 0, again.tail
    assert again.metrics == {}
    assert len(events(again, "resumed")) == 1
    assert len(events(again, "training_ended")) == 2
    assert {event["attempt"] for event in events(again, "candidate_checked")} == {0, 1}
    assert len(server.requests) == asked > 0  # the replies were in the ledger
