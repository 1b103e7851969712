"""Fuzz states: files of any bytes, and states with a valid checksum and invalid content."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

from fuzz.source import Source, as_json
from fuzz.target import Target, scratch
from prompt_coevo import Coevolution, Settings
from prompt_coevo.engine.state import plugin_states, read_state, seal, unseal, write_view
from prompt_coevo.errors import StateError
from prompt_coevo.testing.scripted_world import (
    QUESTIONS,
    ScriptedPolicy,
    helpful_reply,
    rolled_out,
    rule,
)

_INSPO: Final = {
    "instruction": "Think.",
    "population_size": 2,
    "evolve_every": 1,
    "verify_size": 2,
    "candidates_per_call": 1,
    "failures_per_reflection": 1,
}
_P2O: Final = {
    "overspend": "never",
    "minibatch_size": 2,
    "dev_size": 2,
    "search_budget": 12,
    "calls_per_hard": 0.1,
}
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "p2o": {"algorithms": "p2o", "p2o": _P2O},
    "bare": {"algorithms": "p2o", "p2o": {**_P2O, "hardness": "bare"}},
    "stream": {"algorithms": "stream"},
    "inspo": {"algorithms": "inspo", "inspo": _INSPO},
    "overlapped": {
        "algorithms": "inspo",
        "inspo": {**_INSPO, "evolve_every": 2, "reflection": "overlapped"},
    },
}
"""One for each way in which a method keeps its state."""


def state_file(data: bytes) -> None:
    """Load any file as a state or refuse it."""
    path = scratch() / "coevo_state.json"
    path.write_bytes(data)
    try:
        found = unseal(read_state(path))
    except StateError:
        return
    assert found.round >= 0


def state_tree(data: bytes) -> None:
    """Load a state with a damaged outer form, with a valid checksum where possible."""
    source = Source(data)
    body = {name: value for name, value in _state("p2o").items() if name != "checksum"}
    tree = source.wrong(body)
    try:
        if isinstance(tree, dict):
            tree = {**tree, "checksum": seal(tree)["checksum"]}
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        pass  # such a state has no sum
    engine = _engine("p2o")
    try:
        engine.load_state_dict(tree)
    except StateError:
        return
    engine.plan(list(QUESTIONS)[:2], 2)
    state = engine.state_dict()
    plugin_states(json.loads(json.dumps(state)))
    write_view(scratch() / "view.json", state)


def method_state(data: bytes) -> None:
    """Load a method's state with one wrong field, or refuse it in one sentence."""
    source = Source(data)
    name = source.pick(list(SETTINGS))
    engine = _engine(name)
    whole = dict(_state(name))
    texts = dict(whole["plugins"])
    plugin = source.pick(sorted(texts))
    tree = source.wrong(json.loads(texts[plugin]))
    texts[plugin] = as_json(tree).decode() if source.below(8) else source.text()
    del whole["checksum"], whole["schema"]
    policy = ScriptedPolicy(rule)
    try:
        engine.load_state_dict(seal({**whole, "plugins": texts}))
        with policy.open():
            engine.begin(policy)
    except StateError:
        return


@cache
def _engine(name: str) -> Coevolution:
    settings = Settings(**SETTINGS[name], reflection={"function": helpful_reply}, resume="force")
    return Coevolution.from_settings(settings)


@cache
def _state(name: str) -> dict[str, Any]:
    """Return the state of an engine after two epochs."""
    engine, policy = _engine(name), ScriptedPolicy(rule)
    with policy.open():
        engine.begin(policy)
        for _ in range(2):
            for start in (0, 8):
                plan = engine.plan(list(QUESTIONS)[start : start + 8], 2)
                engine.observe([rolled_out(one, rule) for one in plan])
                engine.step_end(policy)
            engine.epoch_end(policy)
    state: dict[str, Any] = json.loads(json.dumps(engine.state_dict()))
    return state


_SMALL: Final = {
    "run": {"seed": 0},
    "noted": {},
    "attempt": 0,
    "step": 3,
    "round": 3,
    "epochs": 1,
    "plugins": {"p2o": '{"hard": {}}'},
    "reflection": {"calls": 1.0},
    "ledger": 4,
}

TARGETS = {
    "states.files": Target(
        state_file,
        (as_json(seal(_SMALL)), as_json({"schema": 3}), as_json({"schema": [[]]}), b"[" * 1500),
        5.0,
    ),
    "states.trees": Target(state_tree, (bytes(range(60)), b"\0\1", bytes([1, 2, 2] * 9)), 0.25),
    "states.methods": Target(
        method_state, tuple(bytes([n, 0, 1, 2, 3 + n] * 12) for n in range(len(SETTINGS))), 0.15
    ),
}
