"""Settings of a retrieval server."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from prompt_coevo.errors import SettingsError
from prompt_coevo.retrieval.access import read_token
from prompt_coevo.retrieval.retriever import Limits


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
        for setting in fields(self):
            value = getattr(self, setting.name)
            if isinstance(value, int | float) and setting.name != "port" and not value > 0:
                raise SettingsError(f"{setting.name} must be above 0, but is {value}")
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
