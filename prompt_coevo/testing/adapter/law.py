"""A law: a function that raises AssertionError, and what a host must have for it to apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from prompt_coevo.testing.adapter.host import Capability
from prompt_coevo.testing.adapter.laboratory import Laboratory

Check: TypeAlias = Callable[[Laboratory], None]


@dataclass(frozen=True)
class Law:
    """`check` raises AssertionError, or any error of a run, if the adapter does not keep it."""

    name: str
    sentence: str
    needs: tuple[Capability, ...]
    check: Check

    def excuse(self, lab: Laboratory) -> str | None:
        """Why the law does not apply to this host, None if it does."""
        lacks = lab.adapter.lacks
        return next((f"{need}: {lacks[need]}" for need in self.needs if need in lacks), None)


LAWS: Final[dict[str, Law]] = {}
"""All laws by name, in the order of reading."""


def law(*needs: Capability) -> Callable[[Check], Check]:
    """Make a law of a function; its docstring is the sentence."""

    def keep(check: Check) -> Check:
        name = check.__name__.replace("_", " ")
        LAWS[name] = Law(name, " ".join((check.__doc__ or "").split()), needs, check)
        return check

    return keep
