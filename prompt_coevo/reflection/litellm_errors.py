"""Tell what an error of litellm means."""

from __future__ import annotations

import re
from collections.abc import Iterator

from prompt_coevo.reflection.bounded_endpoint import EndpointFaultError

_TRANSIENT_STATUS = {408, 409, 429}
_NOT_IMPLEMENTED = 501
# A missing key never reaches a server; each provider's client words the error in its own way.
NO_KEY = re.compile(
    r"missing (?:\S+ ){0,2}(?:credentials|api[ _]key)|api_key \S+ option must be", re.I
)


def is_transient(error: BaseException) -> bool:
    """Check whether a retry may help."""
    status = _status(error)
    if NO_KEY.search(str(error)):
        return False
    if status is None:
        return isinstance(error, (TimeoutError, ConnectionError))
    if status in _TRANSIENT_STATUS:
        return True
    return status >= 500 and status != _NOT_IMPLEMENTED and not is_unreadable(error)


def may_be_paid(error: BaseException) -> bool:
    """Check whether the call may have been answered, and billed."""
    if isinstance(error, EndpointFaultError):
        return error.answered
    return isinstance(error, TimeoutError) or _status(error) == 408


def is_unreadable(error: BaseException) -> bool:
    """Check whether the server answered something that litellm cannot read.

    litellm reports that, too, as a server error (or as status 200); only real server errors have an error
    of the HTTP client as their cause.
    """
    import httpx

    status = _status(error)
    if status is None or 300 <= status < 500:
        return False
    return not any(isinstance(cause, httpx.HTTPError) for cause in _causes(error))


def misuse(error: BaseException) -> str | None:
    """Return how litellm used our client as one of another kind, or None if the error has another cause."""
    for cause in _causes(error):
        named = any(name in str(cause) for name in ("HTTPHandler", "EitherClient"))
        if named and isinstance(cause, TypeError | AttributeError):
            return str(cause).partition("\n")[0]
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _status(error: BaseException) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def retry_after(error: BaseException) -> float | None:
    """Return the seconds to wait that the server asks for, 0 if it gives none or a date; None for an error
    that a retry would not help."""
    if not is_transient(error):
        return None
    headers = getattr(error, "litellm_response_headers", None) or {}
    try:
        return float(headers.get("retry-after", 0))
    except ValueError:
        return 0.0


def is_html(text: str) -> bool:
    """Check whether a text has a web page in it."""
    return "<html" in text.lower() or "<!doctype html" in text.lower()
