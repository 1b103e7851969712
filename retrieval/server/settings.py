"""Settings of a retrieval server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final

from prompt_coevo.errors import SettingsError
from prompt_coevo.registry import nearest
from prompt_coevo.retrieval.access import read_token
from prompt_coevo.retrieval.retriever import Limits

_OPTIONS: Final = ("host", "port", "default_k")


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a retrieval server. Raises SettingsError for values that cannot work."""

    host: str = "127.0.0.1"
    """Loopback by default: whoever reaches the port, and has the token if there is one, may search."""
    port: int = 8000
    """0 picks a free one."""
    default_k: int = 3
    """Passages per query if the client names no number."""
    max_batch: int = 256
    """Most queries in one search."""
    max_waiting: int = 65_536
    """Most waiting queries; an INSPO step has up to 10 240."""
    deadline_s: float = 30.0
    """Time for one request from its arrival; for a longer one, per `max_batch` queries."""
    max_search_s: float = 120.0
    """Time for one search; a longer one is abandoned, and the next one begins beside it."""
    read_timeout_s: float = 10.0
    """Time for a client to send a request's body."""
    max_body_bytes: int = 16 * 2**20
    max_connections: int = 4096
    limits: Limits = field(default_factory=Limits)
    token: str | None = field(default_factory=read_token, repr=False)
    """The token that clients must send; PROMPT_COEVO_RETRIEVAL_TOKEN if set. None requires no token."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names, besides this machine's, that requests to a server on a loopback address may use."""
    allowed_origins: tuple[str, ...] = ()
    """Origins that may send requests from a browser, such as `https://example.org`."""

    def __post_init__(self) -> None:
        for name, value in {**vars(self), **vars(self.limits)}.items():
            if isinstance(value, int | float) and name != "port" and not value > 0:
                raise SettingsError(f"{name} must be above 0, but is {value}")
        read_token(self.token)
        if not 0 <= self.port < 2**16:
            raise SettingsError(f"port must be from 0 to 65535, but is {self.port}")
        if self.default_k > self.limits.max_k:
            raise SettingsError(
                f"default_k is {self.default_k}, but max_k allows no more than {self.limits.max_k}"
            )
        if self.limits.max_queries > self.max_waiting:
            raise SettingsError(
                f"a request may have {self.limits.max_queries} queries, but only {self.max_waiting} may "
                "wait; raise max_waiting or lower max_queries"
            )


def read_settings(
    given: Mapping[str, str], *, host: str, port: int, default_k: int, token: str | None
) -> ServerSettings:
    """Make settings of the options of `retrieval serve`; `given` is what `--set` says, by name.

    Names are fields of ServerSettings and Limits that have no option of their own. Raises SettingsError.
    """
    known = {
        one.name: one.default
        for one in (*fields(ServerSettings), *fields(Limits))
        if one.default is not MISSING and one.name not in _OPTIONS
    }
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name not in known:
            raise SettingsError(
                f"--set {name}: unknown name{nearest(name, known, '.')} Known: {', '.join(known)}"
            )
        kind = type(known[name])
        try:
            values[name] = tuple(text.replace(",", " ").split()) if kind is tuple else kind(text)
        except ValueError:
            raise SettingsError(f"--set {name}={text}: must be of type {kind.__name__}") from None
    limits = Limits(
        **{one.name: values.pop(one.name) for one in fields(Limits) if one.name in values}
    )
    return ServerSettings(
        host=host, port=port, default_k=default_k, token=token, limits=limits, **values
    )
