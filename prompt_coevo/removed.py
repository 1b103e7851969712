"""What left the package, and what to use now: each entry ends a sentence "NAME was removed: ..."."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SETTINGS: Final[Mapping[str, str]] = {}
"""By the full name, such as `inspo.verify`."""

HOOKS: Final[Mapping[str, str]] = {}
"""By the hook's name."""

COMMANDS: Final[Mapping[str, str]] = {}
"""By what follows `prompt-coevo`."""
