"""A law: a function that raises AssertionError, and the capabilities that it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from prompt_coevo.testing.adapter.host import Capability
from prompt_coevo.testing.adapter.laboratory import Laboratory

Check: TypeAlias = Callable[[Laboratory], None]


@dataclass(frozen=True)
class Law:
    """One law. `check` raises AssertionError, or any error of a run, if the adapter breaks it."""

    name: str
    sentence: str
    needs: tuple[Capability, ...]
    check: Check

    def excuse(self, lab: Laboratory) -> str | None:
        """Return why the law does not apply to this trainer, or None if it does."""
        lacks = lab.adapter.lacks
        return next((f"{need}: {lacks[need]}" for need in self.needs if need in lacks), None)


LAWS: Final[dict[str, Law]] = {}
"""All laws by name, in reading order."""


def law(*needs: Capability) -> Callable[[Check], Check]:
    """Register a function as a law; its docstring becomes the law's sentence."""

    def keep(check: Check) -> Check:
        name = check.__name__.replace("_", " ")
        LAWS[name] = Law(name, " ".join((check.__doc__ or "").split()), needs, check)
        return check

    return keep
