"""Access checks of a server: the requested host, the page that asks, and the token."""

from __future__ import annotations

import hmac
import ipaddress

from starlette.datastructures import Headers

from prompt_coevo.retrieval.server.errors import Refusal
from prompt_coevo.retrieval.server.settings import ServerSettings

_LONGEST_SHOWN = 100


class Entrance:
    """Checks a request's headers; `listens_on` is the address that the server is bound to.

    On a loopback address a request must name this machine or an allowed host: a page whose host name was
    made to resolve here (DNS rebinding) names its own. Browsers name the page that sends a request; other
    clients do not.
    """

    def __init__(self, settings: ServerSettings, listens_on: str) -> None:
        hosts = {_name(host) for host in settings.allowed_hosts}
        self._hosts = {"localhost", _name(settings.host), *hosts}
        self._checks_host = bool(hosts) or _is_loopback(listens_on)
        self._origins = set(settings.allowed_origins)
        self._bearer = None if settings.token is None else f"Bearer {settings.token}".encode()

    def check_sender(self, headers: Headers) -> None:
        """Raise Refusal for the wrong host or a foreign page."""
        if self._checks_host:
            for host in headers.getlist("host") or [""]:
                self._check_host(host)
        for origin in headers.getlist("origin"):
            if origin not in self._origins:
                raise Refusal(
                    403,
                    f"a page of {_shown(origin)} may not ask this server; `retrieval serve --set "
                    "allowed_origins=ORIGIN` would let it",
                )

    def check_token(self, headers: Headers) -> None:
        """Raise Refusal for a wrong token. The time taken does not reveal how much of it is right."""
        if self._bearer is None:
            return
        given = [one.encode("latin-1") for one in headers.getlist("authorization")]
        if len(given) != 1 or not hmac.compare_digest(given[0], self._bearer):
            raise Refusal(401, "this server asks for a token, which is missing or wrong")

    def _check_host(self, host: str) -> None:
        name = _name(host)
        if name not in self._hosts and not _is_loopback(name):
            raise Refusal(
                421,
                f"{_shown(host)} is no name of this server; `retrieval serve --set allowed_hosts=NAME` "
                "would make it one",
            )


def _name(host: str) -> str:
    """Return the host without port and without the brackets of an IPv6 address."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _shown(text: str) -> str:
    return repr(text[:_LONGEST_SHOWN])
