"""Report how many questions have others like them, and warn if hardly any has."""

from __future__ import annotations

import logging
from typing import Final

import numpy as np

from prompt_coevo.algorithms.stream.evidence import Evidence
from prompt_coevo.algorithms.stream.settings import StreamSettings
from prompt_coevo.context import Context
from prompt_coevo.markers import PROJECT

logger = logging.getLogger(PROJECT)

_LOOKED_AT: Final = 1_000
"""With more questions than this, a random sample of this size is examined."""
_HARDLY_ANY: Final = 0.02
_ENOUGH: Final = 100
"""With fewer questions than this it is no surprise if none is like another."""


def tell_lookalikes(context: Context, evidence: Evidence, questions: int) -> None:
    """Log and journal how many questions have others like them. Warn if hardly any has, unless
    `stream.likeness` is `none` or there are few questions."""
    if questions < 2:
        return
    drawn = np.random.default_rng(0).permutation(questions)[:_LOOKED_AT]
    found = sum(len(evidence.near(number).numbers) > 1 for number in drawn.tolist())
    context.note("lookalikes", questions=questions, looked_at=len(drawn), alike=found)
    about = "about " if len(drawn) < questions else ""
    alike = _spaced(round(found * questions / len(drawn)))
    said = f"{about}{alike} of {_spaced(questions)} questions have others like them"
    if found > _HARDLY_ANY * len(drawn):
        logger.info("stream: %s", said)
        return
    name = context.settings.section(StreamSettings).likeness
    chosen = name == "none" or questions < _ENOUGH
    logger.log(
        logging.INFO if chosen else logging.WARNING,
        "stream: %s (stream.likeness = %r). What a template does on one question then says little about "
        "the others: templates are judged by their overall record, and stream.proof is off "
        "where nothing is alike. If you have a function that knows which questions are alike, name it in "
        "stream.likeness",
        said,
        name,
    )


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")
