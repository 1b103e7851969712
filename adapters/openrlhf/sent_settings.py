"""Send the settings from a command to other processes, on nodes with another environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from prompt_coevo.lines import JSON
from prompt_coevo.redact import redact
from prompt_coevo.settings import Settings
from prompt_coevo.settings.mistakes import Source
from prompt_coevo.settings.sources import ENV_PREFIX

_KEY = f"{ENV_PREFIX}REFLECTION__API_KEY"


class Sent:
    """Carry settings, as JSON `values`, to another process.

    Its text shows no secret, such as a password in an address: trainers print their arguments and send
    them to trackers.
    """

    def __init__(self, values: Mapping[str, JSON]) -> None:
        self.values = values

    def __repr__(self) -> str:
        return redact(repr(self.values))


def sent(settings: Settings) -> Sent:
    """Return all explicit settings, from any source, but the API key."""
    left_out: dict[str, Any] = {"preset": True, "config_file": True, "reflection": {"api_key"}}
    return Sent(settings.resolved(exclude_unset=True, exclude=left_out))


def received(settings: Sent) -> Settings:
    """Rebuild the settings. Only the API key is read from this process's environment."""
    values: Mapping[str, Any] = settings.values
    if key := os.environ.get(_KEY):
        values = {**values, "reflection": {**values.get("reflection", {}), "api_key": key}}
    return _Received(**values)


class _Received(Settings):
    @classmethod
    def _sources(cls, arguments: Mapping[str, Any], found: list[str]) -> list[Source]:
        return [("", arguments)]
