"""Collect the metrics of all plugins for the trainer's logger."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping

from prompt_coevo import hookspecs
from prompt_coevo.engine.run_context import RunContext
from prompt_coevo.markers import PROJECT
from prompt_coevo.types import OfRound

logger = logging.getLogger(PROJECT)


class Metrics:
    """The plugins' `coevo_metrics` and the totals of the ledger."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._colliding: set[str] = set()
        self.of_round: frozenset[str] = frozenset()
        """Names in the latest result of `collect` that describe only the last round."""

    def collect(self) -> dict[str, float]:
        """Return finite numbers by name, each name with the prefix `coevo/`."""
        merged: dict[str, float] = {}
        for plugin, values in self._context.plugins.by_plugin(hookspecs.coevo_metrics).items():
            for name, value in self._numbers(plugin, values).items():
                if name in merged:
                    self._warn_of_collision(name, plugin)
                else:
                    merged[name] = value
        if self._context.model is not None:
            totals = self._context.ledger.totals
            merged.update({f"reflection_{name}": float(value) for name, value in totals.items()})
        of_round = [name for name, value in merged.items() if isinstance(value, OfRound)]
        self.of_round = frozenset(f"coevo/{name}" for name in of_round)
        # Plain floats: some JSON writers, such as orjson, refuse a subclass.
        return {f"coevo/{name}": float(value) for name, value in merged.items()}

    def _numbers(self, plugin: str, values: Mapping[str, float]) -> dict[str, float]:
        """Return the finite numbers of a plugin. Report a plugin that returns anything else."""
        try:
            numbers = {
                str(name): value if isinstance(value, OfRound) else float(value)
                for name, value in values.items()
            }
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            self._context.plugins.report(plugin, "coevo_metrics", error)
            return {}
        return {name: number for name, number in numbers.items() if math.isfinite(number)}

    def _warn_of_collision(self, name: str, plugin: str) -> None:
        if name not in self._colliding:
            self._colliding.add(name)
            logger.warning(
                "the metric %r of the plugin %r is ignored: another plugin already reports it",
                name,
                plugin,
            )
            self._context.note("metric_collides", metric=name, plugin=plugin)
