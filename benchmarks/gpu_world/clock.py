"""A command ends before its machine ends it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Clock:
    """The minutes that a command has, counted from when this is made."""

    minutes: float
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self.began

    @property
    def is_over(self) -> bool:
        return self.seconds >= 60 * self.minutes
