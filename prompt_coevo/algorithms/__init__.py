"""One file per paper, each a plugin like any other, chosen by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prompt_coevo.algorithms.inspo.plugin import Inspo
from prompt_coevo.algorithms.p2o.plugin import P2O
from prompt_coevo.markers import hookimpl
from prompt_coevo.settings import Settings


class BuiltinAlgorithms:
    """Registers the algorithms that come with the package."""

    @hookimpl
    def coevo_register_algorithms(
        self, register: Callable[[str, Callable[..., Any]], None]
    ) -> None:
        register("inspo", Inspo)
        register("p2o", P2O)


def may_distil(settings: Settings) -> bool:
    """Whether a method of this run may have a prompt trained on that differs from the one rolled out."""
    return settings.context_distillation and "p2o" in settings.algorithms
