"""Define a fault and the place where it is planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """A copy of the reference with a fault (`planted`), and the `law` that it must break."""

    name: str
    fault: str
    planted: Any
    law: str


def planter(mutants: list[Mutant]) -> Callable[..., Callable[[Any], Any]]:
    """Return a decorator that lists what it decorates: `@plant("name", "what is wrong")`."""

    def plant(name: str, fault: str, law: str) -> Callable[[Any], Any]:
        def listed(planted: Any) -> Any:
            mutants.append(Mutant(name, fault, planted, law))
            return planted

        return listed

    return plant
