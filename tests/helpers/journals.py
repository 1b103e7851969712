"""Write journals of runs, with the engine or line by line."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from prompt_coevo import Coevolution, Settings
from prompt_coevo.engine.journal import FORMAT
from prompt_coevo.testing.scripted_world import QUESTIONS, ScriptedPolicy, helpful_reply, rolled_out
from prompt_coevo.testing.scripted_world import rule as judge

P2O: Mapping[str, Any] = {
    "algorithms": "p2o",
    "p2o": {"overspend": "never", "minibatch_size": 2, "dev_size": 4, "search_budget": 60},
}
STREAM: Mapping[str, Any] = {"algorithms": "stream"}
INSPO: Mapping[str, Any] = {
    "algorithms": "inspo",
    "inspo": {
        "instruction": "Think.",
        "evolve_every": 2,
        "evolve_until": 9,
        "population_size": 4,
        "verify_size": 6,
    },
}


def run_in(
    folder: Path, settings: Mapping[str, Any], *, epochs: int = 3, reply: Any = helpful_reply
) -> Path:
    """Run the engine without a trainer and return its folder `coevo`."""
    reflection = {"function": reply}
    engine = Coevolution.from_settings(
        Settings(**settings, reflection=reflection), output_dir=folder
    )
    policy, ids = ScriptedPolicy(), list(QUESTIONS)
    with policy.open():
        engine.begin(policy)
        for epoch in range(epochs):
            for step in range(3):
                plan = engine.plan(ids[step::3], 4)
                engine.observe([rolled_out(one, judge) for one in plan])
                engine.step_end(policy, last=(epoch, step) == (epochs - 1, 2))
            if epoch < epochs - 1:
                engine.epoch_end(policy)
        engine.end(policy)
    return folder / "coevo"


def write(folder: Path, events: list[dict[str, Any]]) -> Path:
    """Write a journal of these events, with a header; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    header = {"event": "run_begins", "journal": FORMAT, "settings": {"algorithms": ["p2o"]}}
    lines = [
        json.dumps({"time": "2026-01-01T00:00:00.000+00:00", "attempt": 0, "step": 0, **event})
        for event in [header, *events]
    ]
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


def checked(name: str, text: str, **fields: Any) -> dict[str, Any]:
    """Return a gate event, accepted unless there is a `reason`."""
    described = {"id": name, "kind": "template", "text": text, "origin": "x", "parents": []}
    described["parents"] = fields.pop("parents", [])
    fields.setdefault("reason", None)
    return {"event": "candidate_checked", "candidate": described, "request": "r", **fields}


def week(events: int) -> Iterator[dict[str, Any]]:
    """Return the events of a long run, in realistic kinds."""
    rng = random.Random(0)
    words = [
        "think",
        "first",
        "then",
        "count",
        "the",
        "letters",
        "again",
        "and",
        "name",
        "the",
        "rule",
    ]
    ids: list[str] = []
    for number in range(events // 8):
        step, name = number * 2, f"{number:016x}"
        said = f"{name}-text"
        prompt = " ".join(rng.choices(words, k=300))
        yield {"event": "text", "step": step, "id": said, "text": prompt}
        yield {
            "event": "reply",
            "step": step,
            "call": number,
            "request": name,
            "prompt": said,
            "text": " ".join(rng.choices(words, k=60)),
            "error": None,
            "finish_reason": "stop",
            "usage": {"prompt_tokens": 900, "completion_tokens": 80, "usd": 0.001},
        }
        parents = [rng.choice(ids[-50:])] if ids else []
        text = " ".join(rng.choices(words, k=40))
        yield {**checked(name, text, step=step, parents=parents), "request": name}
        ids.append(name)
        questions = [f"q{rng.randrange(5000)}" for _ in range(8)]
        yield {
            "event": "candidate_verified",
            "step": step,
            "candidate": name,
            "parent": (parents or [name])[0],
            "accepted": rng.random() < 0.3,
            "questions": questions,
            "parent_rewards": [0.0] * 8,
            "rewards": [float(rng.random() < 0.4) for _ in questions],
            "question_texts": [said] * 8,
            "parent_completions": [said] * 8,
            "completions": [said] * 8,
        }
        for offset in (1, 2):
            numbers = {"coevo/hard_samples": 4000.0 - step / 40, "coevo/templates_in_use": 9.0}
            yield {"event": "metrics", "step": step + offset, "metrics": numbers}
            uses = [[rng.choice(questions), name, 5, rng.random()] for _ in range(6)]
            manner = {"rollouts": 30, "reward": rng.random()}
            yield {
                "event": "rewards",
                "step": step + offset,
                "unfit": 0,
                "templated": manner,
                "untemplated": manner,
                "uses": uses,
            }
