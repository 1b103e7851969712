"""The exit of a command that is refused before any of it ran."""

from __future__ import annotations

from prompt_coevo.errors import CoevoError
from prompt_coevo.redact import redact
from prompt_coevo.visible import in_a_line


def refused(error: CoevoError) -> SystemExit:
    """Build the SystemExit to raise: the error in one line, without keys, and exit status 1."""
    return SystemExit(f"error: {in_a_line(redact(str(error)))}")
