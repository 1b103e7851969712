"""The engine's state as JSON: versioned, with a checksum, written atomically. No pickle."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from prompt_coevo.errors import StateError

SCHEMA: Final = 1


def seal(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Add the schema version and a checksum to a state."""
    body = {"schema": SCHEMA, **payload}
    return {**body, "checksum": _checksum(body)}


def unseal(state: Mapping[str, Any], where: str = "the given state") -> dict[str, Any]:
    """The payload of a sealed state. Raises StateError for another schema or a damaged state."""
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
    if state.get("checksum") != _checksum(body):
        raise StateError(
            f"{where} is damaged: its checksum is wrong; resume from another checkpoint"
        )
    del body["schema"]
    return body


def write_json(path: Path, data: Any) -> None:
    """Write a JSON file as `write_text` does."""
    write_text(path, json.dumps(data, indent=1, allow_nan=False))


def write_text(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old file or the whole new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_state(path: Path) -> dict[str, Any]:
    """A state file's content. Raises StateError if it cannot be read as JSON."""
    try:
        state = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise StateError(
            f"the state file {path} cannot be read ({error}); resume from another checkpoint"
        ) from None
    if not isinstance(state, dict):
        raise StateError(
            f"the state file {path} is not a prompt_coevo state; resume from another checkpoint"
        )
    return state


def _checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, allow_nan=False).encode()).hexdigest()
