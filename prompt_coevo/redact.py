"""Keeps keys out of what is written and said."""

from __future__ import annotations

import os
import re
from typing import Final

_NAMES: Final = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS")
# Shorter values are no keys, and replacing them would garble the text ("x" is a common dummy).
_SHORTEST_GIVEN: Final = 4
_SHORTEST_IN_ENVIRONMENT: Final = 8
_USER_IN_ADDRESS: Final = re.compile(r"(?<=://)[^/\s@]+@")
_QUERY_IN_ADDRESS: Final = re.compile(r"(?<=[a-z]://)([^\s?#\"'<>]+)\?[^\s#\"'<>]+")


def redact(text: str, *keys: str) -> str:
    """As `without_keys`, and without the queries of addresses, where servers take keys, too."""
    return _QUERY_IN_ADDRESS.sub(r"\1?[query]", without_keys(text, *keys))


def without_keys(text: str, *keys: str) -> str:
    """The text without `keys`, the keys in environment variables, and user names in addresses.

    A variable holds a key if its name is or ends in KEY, TOKEN, SECRET, PASSWORD, PASSWD or CREDENTIALS
    (after an underscore), and its value is no path.
    """
    found = {key for key in keys if len(key) >= _SHORTEST_GIVEN} | _keys_in_environment()
    for key in sorted(found, key=len, reverse=True):
        text = text.replace(key, "[api key]")
    return _USER_IN_ADDRESS.sub("", text)


def _keys_in_environment() -> set[str]:
    values = (value.strip() for name, value in os.environ.items() if _names_a_key(name))
    return {
        value
        for value in values
        if len(value) >= _SHORTEST_IN_ENVIRONMENT and not value.startswith(("/", "~", "."))
    }


def _names_a_key(name: str) -> bool:
    return name.upper().rpartition("_")[2] in _NAMES
