"""The addresses of a retrieval server."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit, urlunsplit

from prompt_coevo.errors import SettingsError
from prompt_coevo.redact import redact


def retrieve_url(address: str) -> str:
    """Return the address for searches: as given if it has a path, else with `/retrieve` appended.

    Raises SettingsError if it is not an HTTP address.
    """
    parts = http_parts(address)
    if parts is None:
        raise SettingsError(
            f"{redact(address)!r} is no address of a retrieval server; it should look like "
            "http://127.0.0.1:8000"
        )
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") or "/retrieve"))


def http_parts(address: str) -> SplitResult | None:
    """Return the parts of an HTTP address, None if it is not one."""
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        (parts.hostname or "").encode("idna")
    except ValueError:  # a port that is not a number, or an impossible host name
        return None
    return parts if usable else None


def health_url(retrieve: str) -> str:
    """Return the address of `/health`, next to `/retrieve`."""
    return _beside(retrieve, "health")


def metrics_url(retrieve: str) -> str:
    """Return the address of `/metrics`, next to `/retrieve`."""
    return _beside(retrieve, "metrics")


def _beside(retrieve: str, name: str) -> str:
    parts = urlsplit(retrieve)
    return urlunsplit(parts._replace(path=f"{parts.path.rpartition('/')[0]}/{name}", query=""))
