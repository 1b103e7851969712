"""Remove API keys and other secrets from texts that are logged, journaled or shown."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

_NEVER_A_WORD: Final = ("KEY", "KEYS", "TOKEN", "JWT", "PAT", "APIKEY", "ZENAPIKEY")
_NAMES: Final = (
    *_NEVER_A_WORD,
    *("SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "PASS"),
    *("CREDENTIAL", "CREDENTIALS"),
)
_SAYS_NOTHING: Final = re.compile(r"\d+|V\d+|ID|PEM")
"""Endings of a variable's name that do not count, as in `OPENAI_API_KEY_2`."""
_WORDS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|[-_]")
"""The boundaries between the words of a name."""
_SECRET_SETTING: Final = re.compile(
    r"(?:^|_)(?:(?:API|ACCESS|SECRET|PRIVATE)_?KEYS?|PASSWORD|PASSWD|PASSPHRASE|SECRETS?|CREDENTIALS?"
    r"|AUTHORIZATION)$|^(?:(?:API|ACCESS|AUTH|BEARER|HF|SESSION|REFRESH)_)?TOKEN$"
)
_SEVERAL: Final = re.compile(r"[\s,;]+")
# Shorter values are not keys; replacing them would garble the text ("x" is a common dummy).
_SHORTEST_GIVEN: Final = 4
_SHORTEST_IN_ENVIRONMENT: Final = 8
_SHORTEST_CODED: Final = 12
_SHORTEST_OF_SEVERAL: Final = 16
_SHORTEST_HALVED: Final = 24
_IN_ADDRESS: Final = "://"
"""A cheap test before the regexes: most texts are ids, thousands per step, without an address."""
# The second form has a slash in the password, and must not match port and path. Bounded, as it would
# take quadratic time otherwise.
_USER_IN_ADDRESS: Final = re.compile(
    r"(?<=://)(?:[^/\s]{1,500}@|[^/\s:@\[]{1,100}:(?!\d{1,5}(?:/|$))[^\s@\"'<>,]{1,200}@)"
)
_ADDRESS: Final = re.compile(r"(://[^\s?#\"'<>]+)(?:(\?)[^\s\"'<>]+|#[^\s\"'<>]+)?")
_TOP: Final = re.compile(r"/[^/]+")
# The providers' formats. Where an ordinary name could look the same: with a digit, and with a capital
# letter or a long stretch without dashes.
_SHAPE_OF_A_KEY: Final = re.compile(
    r"(?<![\w-])(?:"
    r"(?:sk|gsk|xai|pplx)[-_](?=[\w-]*\d)(?=[\w-]*(?:[A-Z]|[a-z0-9]{24}))[\w-]{16,}"
    r"|hf_[A-Za-z0-9]{30,}|AIza[\w-]{30,}|(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{22,}|glpat-[\w-]{20,}|xox[abprs]-[\w-]{10,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|[Bb]earer +(?=[\w.~+/-]*\d)[\w.~+/-]{16,}=*|Authorization\W{1,4}[Bb]asic +[\w+/-]{8,}=*"
    r")"
)
_IN_A_KEY: Final = (
    *("sk-", "sk_", "xai-", "xai_", "pplx", "hf_", "AIza", "AKIA", "ASIA"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
    *("xox", "eyJ", "earer ", "asic "),
)
"""Every key of these shapes contains one of these parts. A cheap test: most texts contain none."""
_MARK: Final = "[api key]"


def redact(text: str, *keys: str) -> str:
    """Return the text without secrets.

    Removed are: the given keys and those in environment variables, also in base64, hexadecimal, percent or
    JSON encoding, and each half of a long one; texts in the format of a provider's key, a JSON web token or
    an authorization header; users, passwords, queries and fragments of addresses.

    A variable holds a key if its name is or ends in KEY, TOKEN, SECRET, PASSWORD, PASSWD, PASSPHRASE,
    CREDENTIALS, JWT, PAT or APIKEY (after an underscore; a number or ID may follow), and its value is not
    a path: one that exists, that begins with `~/`, `./` or `../`, or with `/` and a name that exists at the
    root. (Keys in base64 may begin with a slash.) A KEY, TOKEN, JWT or PAT is never a single word, nor
    `<a mark>`.
    """
    return redact_known(text, known_keys(*keys))


def redact_known(text: str, known: Sequence[str]) -> str:
    """Redact many texts: as `redact`, with `known_keys` computed once, which is the slow part."""
    if _IN_ADDRESS in text:  # first: a key may be a part of an address
        text = _ADDRESS.sub(_without_query, _USER_IN_ADDRESS.sub("", text))
    for key in known:
        text = text.replace(key, _MARK)
    if any(part in text for part in _IN_A_KEY):
        text = _SHAPE_OF_A_KEY.sub(_MARK, text)
    return text


def secrets_in(address: str) -> list[str]:
    """Return the secrets in an address: its password, and keys in its query."""
    try:
        parts = urlsplit(address)
        found = [value for name, value in parse_qsl(parts.query) if names_a_key(name)]
        found.append(unquote(parts.password or ""))
    except ValueError:
        return []
    return [one for one in found if one]


def looks_like_a_key(value: str) -> bool:
    """Check whether the value, or what follows a provider's name in it, has the format of a key."""
    return any(_SHAPE_OF_A_KEY.fullmatch(part) for part in value.strip().split("/"))


@lru_cache(maxsize=1024)
def names_a_key(name: str) -> bool:
    """Check whether an environment variable with this name holds a key."""
    return _last_word(name) in _NAMES or {"BEARER", "TOKEN"} <= set(name.upper().split("_"))


def names_a_secret(name: str) -> bool:
    """Check whether a setting is secret by its name: `api_key` is, `sort_key` and `eos_token` are not."""
    return bool(_SECRET_SETTING.search(_WORDS.sub("_", name).upper()))


def _last_word(name: str) -> str:
    words = name.upper().split("_")
    while len(words) > 1 and _SAYS_NOTHING.fullmatch(words[-1]):
        words.pop()
    last = words[-1]
    return next((one for one in ("PASSWORD", "PASSPHRASE", "APIKEY") if last.endswith(one)), last)


def known_keys(*keys: str) -> list[str]:
    """Return the given keys and those in environment variables, in all their forms, the longest first."""
    found = {key for key in keys if len(key) >= _SHORTEST_GIVEN} | _keys_in_environment()
    return sorted({form for key in found for form in _forms(key)}, key=len, reverse=True)


@lru_cache(maxsize=256)
def _forms(key: str) -> frozenset[str]:
    """Return the forms in which a key may occur in a text."""
    forms = {key, json.dumps(key)[1:-1]}
    forms |= {quote(key, safe=safe, errors="surrogateescape") for safe in ("", "/")}
    if len(key) >= _SHORTEST_CODED:
        data = key.encode("utf-8", "replace")
        forms |= {data.hex(), *_in_base64(data)}
    if len(key) >= _SHORTEST_HALVED:
        halves = (key[: len(key) // 2].strip(), key[len(key) // 2 :].strip())
        forms |= {half for half in halves if len(half) >= _SHORTEST_CODED}
    return frozenset(forms)


def _in_base64(data: bytes) -> set[str]:
    """Return the part of the base64 text that does not depend on what precedes, such as `user:`."""
    found = set()
    for before in range(3):
        whole = base64.b64encode(bytes(before) + data).decode()
        first = -(-before * 4 // 3)
        last = (before + len(data)) * 4 // 3
        found |= {whole[first:last], whole[first:last].replace("+", "-").replace("/", "_")}
    return found


def _keys_in_environment() -> set[str]:
    found = set[str]()
    for name, value in os.environ.items():
        if names_a_key(name):
            whole = value.strip()
            parts = {one for one in _SEVERAL.split(whole) if len(one) >= _SHORTEST_OF_SEVERAL}
            word = _last_word(name) in _NEVER_A_WORD and (whole.isalpha() or whole[:1] == "<")
            found |= set() if word else {whole, *parts, *_keys_in_json(whole)}
    return {one for one in found if len(one) >= _SHORTEST_IN_ENVIRONMENT and not _is_path(one)}


def _keys_in_json(value: str) -> set[str]:
    """Return the secrets in credentials that are a JSON object: whole ones, and the lines of a PEM key."""
    if not value.startswith("{"):
        return set()
    found = set[str]()

    def collect(pairs: list[tuple[str, object]]) -> None:
        for name, one in pairs:
            if isinstance(one, str) and names_a_secret(name):
                found.update(
                    {one, *(part for part in one.split() if len(part) >= _SHORTEST_OF_SEVERAL)}
                )

    try:
        json.loads(value, object_pairs_hook=collect)
    except (ValueError, RecursionError):
        return set()
    return found


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
