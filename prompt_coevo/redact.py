"""Keeps keys out of what is written and said."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

_NAMES: Final = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS")
# Shorter values are no keys, and replacing them would garble the text ("x" is a common dummy).
_SHORTEST_GIVEN: Final = 4
_SHORTEST_IN_ENVIRONMENT: Final = 8
_IN_ADDRESS: Final = "://"
"""Looked for first: most texts are ids, thousands of them for a step, and hold none."""
_USER_IN_ADDRESS: Final = re.compile(r"(?<=://)[^/\s]+@")
_ADDRESS: Final = re.compile(r"(://[^\s?#\"'<>]+)(?:(\?)[^\s\"'<>]+|#[^\s\"'<>]+)?")
_TOP: Final = re.compile(r"/[^/]+")
# As the providers make them: long enough, and with a digit, so that no name of a model is one.
_SHAPE_OF_A_KEY: Final = re.compile(
    r"(?<![\w-])(?:(?:sk|gsk|xai|pplx)[-_](?=[\w-]*\d)[\w-]{16,}|hf_[A-Za-z0-9]{30,}|AIza[\w-]{30,})"
)


def redact(text: str, *keys: str) -> str:
    """As `without_keys`, and without queries and fragments of addresses, where servers take keys, too."""
    return redact_known(text, known_keys(*keys))


def redact_known(text: str, known: Sequence[str]) -> str:
    """The same for many texts: `known` is what `known_keys` has just said."""
    text = _without(text, known)
    return _ADDRESS.sub(_without_query, text) if _IN_ADDRESS in text else text


def redact_quoted(text: str, *keys: str) -> str:
    """The same for a sentence that quotes what a person has typed, and so perhaps a key in the wrong
    place, which is in no environment variable: without what has the shape of one."""
    return _SHAPE_OF_A_KEY.sub("[api key]", redact(text, *keys))


def looks_like_a_key(value: str) -> bool:
    """Whether the value, or what stands behind a provider's name in it, has the shape of a key."""
    return any(_SHAPE_OF_A_KEY.fullmatch(part) for part in value.strip().split("/"))


def without_keys(text: str, *keys: str) -> str:
    """The text without `keys`, the keys in environment variables, and user names in addresses.

    A variable holds a key if its name is or ends in KEY, TOKEN, SECRET, PASSWORD, PASSWD or CREDENTIALS
    (after an underscore), and its value is no path: one that exists, that begins with `~/`, `./` or `../`,
    or with `/` and a name that exists at the root. (Keys in base64 may begin with a slash.)
    """
    return _without(text, known_keys(*keys))


def known_keys(*keys: str) -> list[str]:
    """The keys that are given and those in environment variables, the longest first."""
    found = {key for key in keys if len(key) >= _SHORTEST_GIVEN} | _keys_in_environment()
    return sorted(found, key=len, reverse=True)


def _without(text: str, known: Sequence[str]) -> str:
    for key in known:
        text = text.replace(key, "[api key]")
    return _USER_IN_ADDRESS.sub("", text) if _IN_ADDRESS in text else text


def _keys_in_environment() -> set[str]:
    values = (value.strip() for name, value in os.environ.items() if _names_a_key(name))
    return {
        value for value in values if len(value) >= _SHORTEST_IN_ENVIRONMENT and not _is_path(value)
    }


def _is_path(value: str) -> bool:
    if value.startswith(("~/", "./", "../")):
        return True
    top = _TOP.match(value)
    return value.startswith(("/", "~", ".")) and os.path.exists(top[0] if top else value)


def _without_query(address: re.Match[str]) -> str:
    whole, plain, query = address[0], address[1], address[2]
    if whole == plain:
        return whole
    return f"{plain}?[query]" if query else f"{plain}#[fragment]"


def _names_a_key(name: str) -> bool:
    return name.upper().rpartition("_")[2] in _NAMES
