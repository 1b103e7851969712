"""Replace `vllm.utils`."""

from __future__ import annotations

from uuid import uuid4


def random_uuid() -> str:
    """Return a name for a request."""
    return uuid4().hex
