"""The searches that P2O can run with: one per `p2o.search_backend`."""

from __future__ import annotations

import logging

from prompt_coevo.algorithms.p2o.plugin import P2O
from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.algorithms.p2o.stream.plugin import Stream
from prompt_coevo.context import Context
from prompt_coevo.markers import PROJECT

logger = logging.getLogger(PROJECT)


def build(context: Context) -> P2O | Stream:
    """The plugin of a run. Warns of settings under which every question is hard."""
    settings = context.settings.section(P2OSettings)
    if settings.tau > settings.solved_at:
        reason = f"p2o.tau = {settings.tau:g} is above p2o.solved_at = {settings.solved_at:g}"
        context.note("every_question_is_hard", reason=reason)
        logger.warning("%s: a question counts as hard even if it is always solved", reason)
    return Stream(context) if settings.search_backend == "stream" else P2O(context)
