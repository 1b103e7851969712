"""Keeps the keys that it knows out of the error texts that are given to it."""

from __future__ import annotations

import os
import re

_NAMES = ("_API_KEY", "_ACCESS_KEY", "_TOKEN")
# Shorter values are no keys, and replacing them would garble the text ("x" is a common dummy).
_SHORTEST_GIVEN = 4
_SHORTEST_IN_ENVIRONMENT = 8
_USER_IN_ADDRESS = re.compile(r"(?<=://)[^/\s@]+@")


def redact(text: str, *keys: str) -> str:
    """The text without `keys`, the keys in environment variables, and user names in addresses."""
    found = {key for key in keys if len(key) >= _SHORTEST_GIVEN} | _keys_in_environment()
    for key in sorted(found, key=len, reverse=True):
        text = text.replace(key, "[api key]")
    return _USER_IN_ADDRESS.sub("", text)


def _keys_in_environment() -> set[str]:
    values = (value.strip() for name, value in os.environ.items() if name.upper().endswith(_NAMES))
    return {value for value in values if len(value) >= _SHORTEST_IN_ENVIRONMENT}
