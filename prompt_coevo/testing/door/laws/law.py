"""A law: a function that raises Broken, a sentence, and what a host must have for it to apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from prompt_coevo.testing.door.host import Capability
from prompt_coevo.testing.door.laboratory import Laboratory


@dataclass(frozen=True)
class Law:
    """`check` raises Broken, or any error of a run, if the door does not keep it."""

    name: str
    sentence: str
    needs: tuple[Capability, ...]
    check: Callable[[Laboratory], None]

    def excuse(self, laboratory: Laboratory) -> str | None:
        """Why the law does not apply to this host, None if it does."""
        for capability in self.needs:
            if capability in laboratory.door.lacks:
                return f"{capability}: {laboratory.door.lacks[capability]}"
        return None


LAWS: Final[dict[str, Law]] = {}
"""All laws by name, in the order of reading."""


def law(
    *needs: Capability,
) -> Callable[[Callable[[Laboratory], None]], Callable[[Laboratory], None]]:
    """Make a law of a function; its docstring is the sentence."""

    def keep(check: Callable[[Laboratory], None]) -> Callable[[Laboratory], None]:
        name = check.__name__.replace("_", " ")
        LAWS[name] = Law(name, " ".join((check.__doc__ or "").split()), needs, check)
        return check

    return keep
