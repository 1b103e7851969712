"""Send the settings from a command to other processes, on nodes with another environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from prompt_coevo.lines import JSON
from prompt_coevo.settings import Settings
from prompt_coevo.settings.mistakes import Source
from prompt_coevo.settings.sources import ENV_PREFIX

_KEY = f"{ENV_PREFIX}REFLECTION__API_KEY"


def sent(settings: Settings) -> dict[str, JSON]:
    """Return all explicit settings, from any source, as JSON: without the API key, because trainers print
    their arguments."""
    left_out: dict[str, Any] = {"preset": True, "config_file": True, "reflection": {"api_key"}}
    return settings.resolved(exclude_unset=True, exclude=left_out)


def received(values: Mapping[str, Any]) -> Settings:
    """Rebuild the settings. Only the API key is read from this process's environment."""
    if key := os.environ.get(_KEY):
        values = {**values, "reflection": {**values.get("reflection", {}), "api_key": key}}
    return _Received(**values)


class _Received(Settings):
    @classmethod
    def _sources(cls, arguments: Mapping[str, Any], found: list[str]) -> list[Source]:
        return [("", arguments)]
