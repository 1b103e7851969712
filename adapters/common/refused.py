"""The end of a command that is refused before anything of it ran."""

from __future__ import annotations

from prompt_coevo.errors import CoevoError
from prompt_coevo.redact import redact
from prompt_coevo.visible import in_a_line


def refused(error: CoevoError) -> SystemExit:
    """To be raised: the error in one line, without keys, and exit status 1."""
    return SystemExit(f"error: {in_a_line(redact(str(error)))}")
