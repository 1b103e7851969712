"""Check that no misbehaviour of a language model stops training or gets past the gates.

A real P2O engine asks the real litellm, which asks a local HTTP server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.misbehaviour import KEY, MISBEHAVIOURS, USEFUL, Misbehaviour, questions
from helpers.searches import SMALL_SEARCH
from helpers.waits import waits_take_no_time
from prompt_coevo import Coevolution
from prompt_coevo.types import Rollout
from standins.openai_server import openai_server

P2O = {**SMALL_SEARCH, "search_budget": 60, "max_barren_waves": 2}


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    waits_take_no_time(monkeypatch.setattr)


@pytest.fixture
def engine_for(
    make_engine: Callable[..., Coevolution], tmp_path: Path
) -> Iterator[Callable[[Misbehaviour], Coevolution]]:
    with openai_server("unused") as server:

        def build(kind: Misbehaviour) -> Coevolution:
            server.answers = list(kind.answers)
            reflection = {
                "model": "openai/test",
                "api_base": "http://127.0.0.1:1/v1" if kind.refused else server.base,
                "api_key": KEY,
                **kind.settings.get("reflection", {}),
            }
            gates = kind.settings.get("gates", {})
            return make_engine(
                output_dir=tmp_path,
                p2o=P2O,
                reflection=reflection,
                gates=gates,
                preflight={"reflection": "off"},
            )

        yield build


def train_an_epoch(engine: Coevolution, policy: Any) -> set[str]:
    """Train an epoch and return the templates that its rollouts ran under."""
    plan = engine.plan(sorted(policy.questions), 2)
    engine.observe([Rollout(assignment, "", 0.0) for assignment in plan])
    engine.step_end(policy)
    return {assignment.template.text for assignment in plan if assignment.template}


@pytest.mark.parametrize("kind", MISBEHAVIOURS, ids=lambda kind: kind.name)
def test_training_goes_on_and_nothing_bad_is_adopted(
    kind: Misbehaviour, engine_for: Any, keyed_policy: Any, tmp_path: Path
) -> None:
    policy = keyed_policy(12)
    policy.questions = questions(12)
    engine = engine_for(kind)
    assert train_an_epoch(engine, policy) == set()
    engine.epoch_end(policy)
    in_use = train_an_epoch(engine, policy) - {""}
    if kind.adopted:
        assert in_use
        assert all(text.startswith(USEFUL) for text in in_use)
    else:
        assert in_use == set()
    engine.end(policy)

    journal = (tmp_path / "coevo" / "events.jsonl").read_text()
    events = [json.loads(line) for line in journal.splitlines()]
    told = [event for event in events if event["event"] == kind.event]
    assert told
    assert any(kind.reason in (e.get("reason") or e.get("error") or "") for e in told), told
    assert any(event["event"] == "templates_assigned" for event in events)
    assert not any(event["event"] == "plugin_error" for event in events)
    assert KEY not in journal + json.dumps(engine.state_dict())
