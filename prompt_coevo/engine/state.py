"""The engine's state as JSON: versioned, with a checksum, written atomically, without pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prompt_coevo import files
from prompt_coevo.errors import StateError
from prompt_coevo.lines import JSON

SCHEMA: Final = 3

_Count = Annotated[int, Field(ge=0, lt=1 << 53)]


class EngineState(BaseModel):
    """The content of a state, without its schema version and checksum."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    run: dict[str, Any]
    """`RunIdentity.meaning`."""
    noted: dict[str, Any]
    """`RunIdentity.noted`."""
    attempt: _Count
    step: _Count
    round: _Count
    epochs: _Count
    plugins: dict[str, str]
    """The plugins' states by name, each as JSON text: serialised once, and safe from later changes."""
    reflection: dict[str, float]
    """The totals of the calls to the reflection model."""
    ledger: _Count
    """The state includes the replies up to this position of the ledger."""
    under_way: list[_Count]
    """Exceptions: calls whose replies were unused, or belonged to incomplete batches."""


def seal(payload: Mapping[str, JSON]) -> dict[str, JSON]:
    """Add the schema version and a checksum to a state."""
    body = {"schema": SCHEMA, **payload}
    return {**body, "checksum": _checksum(body)}


def unseal(state: Mapping[str, JSON], where: str = "the given state") -> EngineState:
    """Return the content of a sealed state. Raise StateError for another schema or a damaged state."""
    if not isinstance(state, Mapping) or "schema" not in state:
        raise StateError(
            f"{where} is not a prompt_coevo state; resume from a checkpoint that has one"
        )
    if state["schema"] != SCHEMA:
        raise StateError(
            f"{where} has state schema {state['schema']}, this version of prompt_coevo reads "
            "schema "
            f"{SCHEMA}; resume with the version that wrote it"
        )
    body = {name: value for name, value in state.items() if name != "checksum"}
    try:
        right = state.get("checksum") == _checksum(body)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):  # not a state of ours
        right = False
    if not right:
        raise StateError(
            f"{where} is damaged: its checksum is wrong; resume from another checkpoint"
        )
    del body["schema"]
    try:
        return EngineState.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        raise StateError(
            f"{where} is not one that prompt_coevo wrote ({'.'.join(map(str, first['loc']))}: "
            f"{first['msg']}); resume from another checkpoint"
        ) from None


def plugin_states(state: Mapping[str, Any]) -> dict[str, JSON]:
    """Parse the plugins' states in a state. Raise ValueError for one that is not JSON."""
    return {name: json.loads(text) for name, text in state["plugins"].items()}


def write_view(path: Path, state: Mapping[str, Any]) -> None:
    """Write a state for people to read. Raise OSError."""
    head = {name: value for name, value in state.items() if name != "plugins"}
    plugins = [f"{json.dumps(name)}: {text}" for name, text in state["plugins"].items()]
    text = (
        json.dumps(head, indent=1)[:-2] + ',\n "plugins": {\n' + ",\n".join(plugins) + "\n }\n}\n"
    )
    files.replace(path, text.encode(), sync=False)


def write_json(path: Path, data: JSON) -> None:
    """Write a JSON file atomically, with `files.replace`."""
    files.replace(path, json.dumps(data, indent=1, allow_nan=False).encode())


def read_state(path: Path) -> dict[str, JSON]:
    """Return a state file's content. Raise StateError if it cannot be read as JSON."""
    try:
        state = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise StateError(
            f"the state file {path} cannot be read ({error}); resume from another checkpoint"
        ) from None
    if not isinstance(state, dict):
        raise StateError(
            f"the state file {path} is not a prompt_coevo state; resume from another checkpoint"
        )
    return state


def _checksum(body: Mapping[str, Any]) -> str:
    head = {name: value for name, value in body.items() if name != "plugins"}
    digest = hashlib.sha256(json.dumps(head, sort_keys=True, allow_nan=False).encode())
    for name, text in sorted(body["plugins"].items()):  # not through JSON again: they may be long
        digest.update(f"\0{name}\0{text}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
