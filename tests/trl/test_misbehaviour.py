"""Check that no misbehaviour of a language model stops a GRPOTrainer or becomes an INSPO instruction.

The trainer and litellm are real; the model behind it is a local HTTP server.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.inspo_world import events, population
from helpers.misbehaviour import KEY, MISBEHAVIOURS, USEFUL, Misbehaviour, for_instructions
from helpers.trl_world import score
from helpers.waits import waits_take_no_time
from prompt_coevo.adapters.trl import attach
from standins.openai_server import Server, openai_server

FIRST = "note please <search>"  # one kind makes this a required tag
INSPO = {"instruction": FIRST, "paraphrase": False, "evolve_every": 2, "verify_size": 2}


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    waits_take_no_time(monkeypatch.setattr)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with openai_server("unused") as running:
        yield running


OVERLAPPED = ("429 then success", "401", "unclosed tag")
CASES = [(kind, "blocking") for kind in MISBEHAVIOURS] + [
    (kind, "overlapped") for kind in MISBEHAVIOURS if kind.name in OVERLAPPED
]


@pytest.mark.parametrize(
    ("kind", "reflection"), CASES, ids=[f"{kind.name}, {when}" for kind, when in CASES]
)
def test_training_goes_on_and_nothing_bad_joins(
    make_trainer: Any, server: Server, kind: Misbehaviour, reflection: str
) -> None:
    server.answers = [for_instructions(answer) for answer in kind.answers]
    server.requests.clear()
    trainer = make_trainer(max_steps=4, reward_funcs=score)
    callback = attach(
        trainer,
        {
            "algorithms": ("inspo",),
            "question_id_column": "id",
            "inspo": {**INSPO, "reflection": reflection},
            "gates": kind.settings.get("gates", {}),
            "preflight": {"reflection": "off"},
            "reflection": {
                "model": "openai/test",
                "api_base": "http://127.0.0.1:1/v1" if kind.refused else server.base,
                "api_key": KEY,
                **kind.settings.get("reflection", {}),
            },
        },
    )
    trainer.train()
    assert trainer.state.global_step == 4
    texts = [member["instruction"]["text"] for member in population(callback)]
    joined = [text for text in texts if text != FIRST]
    assert bool(joined) == kind.adopted
    assert all(text.startswith(USEFUL) for text in joined)
    told = events(trainer, kind.event)
    assert told
    assert any(kind.reason in (e.get("reason") or e.get("error") or "") for e in told), told
    assert not events(trainer, "plugin_error")
    if kind.event == "reflection_error":
        assert "the reflection model failed" in events(trainer, "evolution_skipped")[0]["reason"]
    written = list(Path(trainer.args.output_dir).rglob("*.json*"))
    assert {path.name for path in written} == {"calls.jsonl", "events.jsonl", "state.json"}
    assert not [path for path in written if KEY in path.read_text()]
