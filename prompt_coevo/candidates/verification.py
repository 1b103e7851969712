"""Which tried candidates join: one question to `coevo_verify`, and the listeners told of each answer."""

from __future__ import annotations

from collections.abc import Sequence

from prompt_coevo import hookspecs
from prompt_coevo.candidates.trials import Trial
from prompt_coevo.context import Context


def verify(context: Context, algorithm: str, trials: Sequence[Trial]) -> list[bool]:
    """Whether each child joins, in order. Nobody joins if no provider gives one answer a trial."""
    if not trials:
        return []
    answer = context.ask(hookspecs.coevo_verify, algorithm=algorithm, trials=trials)
    try:
        verdicts = [bool(verdict) for verdict in answer] if answer is not None else []
    except (TypeError, ValueError):
        verdicts = []
    if len(verdicts) != len(trials):
        context.note("verification_failed", trials=len(trials), verdicts=len(verdicts))
        verdicts = [False] * len(trials)
    for trial, accepted in zip(trials, verdicts, strict=True):
        context.tell(hookspecs.coevo_after_candidate_verified, trial=trial, accepted=accepted)
    return verdicts
