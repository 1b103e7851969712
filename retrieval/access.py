"""The token that a retrieval server may require, from an argument or the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from prompt_coevo.errors import SettingsError
from prompt_coevo.registry import RETRIEVAL_TOKEN_VARIABLE

# The characters that RFC 6750 allows after "Bearer".
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{16,1024}=*")


def read_token(given: str | None = None) -> str | None:
    """Return the token given, else that of PROMPT_COEVO_RETRIEVAL_TOKEN, else None.

    Raises SettingsError for an invalid token, including an empty one: whoever set it wants a closed server.
    The error does not show the token.
    """
    token = os.environ.get(RETRIEVAL_TOKEN_VARIABLE) if given is None else given
    if token is not None and not _TOKEN.fullmatch(token):
        where = RETRIEVAL_TOKEN_VARIABLE if given is None else "token"
        raise SettingsError(
            f"{where} must be at least 16 letters, digits or ._~+/-, without spaces; "
            "`openssl rand -hex 32` makes one"
        )
    return token


def request_headers(token: str | None, addresses: Sequence[str]) -> dict[str, str]:
    """Return the headers of a client's requests to these addresses, with its token if it has one.

    Raises SettingsError, also for an address whose user and password would be sent in place of the token.
    """
    headers = {"content-type": "application/json"}
    if (token := read_token(token)) is not None:
        if any(urlsplit(address).username is not None for address in addresses):
            raise SettingsError(
                "an address has a user name and there is a token, but a request can carry only one"
            )
        headers["authorization"] = f"Bearer {token}"
    return headers
