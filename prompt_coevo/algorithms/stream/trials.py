"""Run the trials of new templates: begin them, judge them, and make room in the library."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from prompt_coevo.algorithms.stream.evidence import Evidence
from prompt_coevo.algorithms.stream.library import Library, Template
from prompt_coevo.algorithms.stream.settings import StreamSettings
from prompt_coevo.algorithms.stream.trial import one_answer, unseen, verdict
from prompt_coevo.context import Context
from prompt_coevo.types import Candidate

_PATIENCE: Final = 3
"""Epochs for which a template may stay on trial."""
_FAIR: Final = 2.0
"""Failed rollouts near a question after which a template is no longer tried there."""


class Trials:
    """Moves candidates into the library and out of it, and counts in `totals` those used and dropped."""

    def __init__(
        self, context: Context, library: Library, evidence: Evidence, totals: dict[str, int]
    ) -> None:
        self._context, self._settings = context, context.settings.section(StreamSettings)
        self._library, self._evidence, self._totals = library, evidence, totals

    def take_in(self, candidate: Candidate, shown: Sequence[int], epoch: int) -> None:
        """Start the trial of a candidate that passed the gates, on questions like those it was proposed
        for. If it is in the library already, add the questions."""
        template = self._library.get(candidate.id)
        if template is None:
            template = self._library.add(candidate, shown, epoch)
            self._evidence.open(template.slot, shown)
        else:
            on_trial = template.state == "trial"
            anew = on_trial and not self._evidence.alike(shown, template.shown)
            template.write_for(shown, anew=anew)
            self._evidence.write_for(template.slot, template.shown)

    def judge(
        self, hard: Collection[int], epoch: int, step: int, truth: Callable[[int], str | None]
    ) -> None:
        """Bring proven templates into use and drop those that failed. If the library is too full, drop
        those that recently solved least on the questions that are hard now. `truth` returns a question's
        right answer, or None."""
        for template in self._library.in_state("trial"):
            others = unseen(template, hard, self._evidence) if self._settings.proof else []
            stale = epoch - template.since > _PATIENCE
            joins = verdict(
                template,
                proof=bool(others),
                stale=stale,
                one_answer=one_answer(template, hard, self._evidence, truth),
            )
            if joins:
                template.state = "in use"
                self._totals["templates_joined"] += 1
                self._note("template_joined", template)
            elif joins is not None:
                self._drop(template, self._failed_on(template, step))
        if self._library.overfull:
            solved = self._evidence.solved_on(hard, step)
            in_use = [one for one in self._library.in_state("in use") if one.slot]
            in_use.sort(key=lambda one: (solved[one.slot], one.since, one.slot))
            for template in in_use[: self._library.overfull]:
                self._drop(template)  # without `failed_on`: it may be proposed again

    def _failed_on(self, template: Template, step: int) -> list[int]:
        """Return the questions it was written for near which it was tried and solved nothing. On the others
        it was never really tried and may be just what they need."""
        outcomes = [
            (question, *self._evidence.outcomes_near(question, [template.slot], step)[:, 0])
            for question in template.shown
        ]
        return [question for question, solved, tried in outcomes if tried >= _FAIR and not solved]

    def _drop(self, template: Template, failed_on: Sequence[int] = ()) -> None:
        self._library.drop(template, failed_on)
        self._totals["templates_dropped"] += 1
        self._note("template_dropped", template)

    def _note(self, event: str, template: Template) -> None:
        self._context.note(
            event,
            template=template.candidate.id,
            text=template.candidate.text,
            tried=template.tried,
            solved=template.solved,
            solved_unseen=template.solved_unseen,
        )
