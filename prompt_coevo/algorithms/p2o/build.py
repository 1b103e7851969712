"""The searches that P2O can run with: one per `p2o.search_backend`."""

from __future__ import annotations

from prompt_coevo.algorithms.p2o.plugin import P2O
from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.algorithms.p2o.stream.plugin import Stream
from prompt_coevo.context import Context


def build(context: Context) -> P2O | Stream:
    """The plugin of a run."""
    streams = context.settings.section(P2OSettings).search_backend == "stream"
    return Stream(context) if streams else P2O(context)
