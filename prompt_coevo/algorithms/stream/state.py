"""Describe what a checkpoint holds of stream."""

from __future__ import annotations

from typing import Any, TypedDict

from prompt_coevo.algorithms.hard_questions.results import ResultsState
from prompt_coevo.algorithms.stream.comparison import ComparisonState
from prompt_coevo.algorithms.stream.evidence import EvidenceState
from prompt_coevo.algorithms.stream.library import LibraryState
from prompt_coevo.algorithms.stream.reflection import ReflectionState
from prompt_coevo.algorithms.stream.upcoming import AheadState


class StreamState(TypedDict, total=False):
    """What a checkpoint holds of stream; nothing before training."""

    hard: list[str]
    library: LibraryState
    evidence: EvidenceState
    failures: list[Any]
    results: ResultsState
    comparison: ComparisonState
    reflection: ReflectionState
    ahead: AheadState
    measured: list[str]
    epoch: int
    groups_of_this_epoch: int
    late: int
    compared: int | None
    instruction: str | None
    totals: dict[str, int]
