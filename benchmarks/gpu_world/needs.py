"""What a command needs, looked for before it begins, and said in one sentence if it is not there."""

from __future__ import annotations

import importlib.util
from typing import Final

# Module to what pip calls it. The package's own needs stand first.
_ALWAYS: Final = {
    "numpy": "numpy",
    "pluggy": "pluggy",
    "pydantic": "pydantic",
    "pydantic_settings": "pydantic-settings[yaml]",
    "torch": "torch",
    "transformers": "transformers",
    "accelerate": "accelerate",
}
_FOR_TRAINING: Final = {"datasets": "datasets", "trl": "trl==1.16.0"}


def missing(command: str) -> str | None:
    """What to install before this command can run, or None."""
    if command == "table":
        return None
    wanted = _ALWAYS | (_FOR_TRAINING if command == "train" else {})
    lacking = [pip for module, pip in wanted.items() if importlib.util.find_spec(module) is None]
    if lacking:
        return (
            f"{command} needs what is missing here: pip install {' '.join(map(repr, lacking))} "
            "(without a network: docs/gpu-world.md says how to bring wheels)"
        )
    try:
        found = importlib.util.find_spec("prompt_coevo.adapters.trl")
    except ModuleNotFoundError:
        found = None
    if found is None:
        return (
            f"{command} needs prompt_coevo installed, since a checkout is no import tree: "
            "pip install --no-deps --no-build-isolation ."
        )
    return None
