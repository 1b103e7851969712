"""The trials of new templates: which of them begin, and what comes of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from prompt_coevo.algorithms.stream.evidence import Evidence
from prompt_coevo.algorithms.stream.library import Library, Template
from prompt_coevo.algorithms.stream.settings import StreamSettings
from prompt_coevo.algorithms.stream.trial import unseen, verdict
from prompt_coevo.context import Context
from prompt_coevo.types import Candidate

_PATIENCE: Final = 3
"""Epochs that a template may be on trial."""
_FAIR: Final = 2.0
"""Rollouts near a question that a template has to have failed in, to be no more tried there."""


class Trials:
    """Takes candidates into the library and out of it, and counts those that came into use and that left in
    `totals`."""

    def __init__(
        self, context: Context, library: Library, evidence: Evidence, totals: dict[str, int]
    ) -> None:
        self._context, self._settings = context, context.settings.section(StreamSettings)
        self._library, self._evidence, self._totals = library, evidence, totals

    def take_in(self, candidate: Candidate, shown: Sequence[int], epoch: int) -> None:
        """Try a candidate that passed the gates on questions like those that it was proposed for, also one
        that is here already."""
        template = self._library.get(candidate.id)
        if template is None:
            template = self._library.add(candidate, shown, epoch)
            self._evidence.open(template.slot, shown)
        else:
            on_trial = template.state == "trial"
            anew = on_trial and not self._evidence.alike(shown, template.shown)
            template.write_for(shown, anew=anew)
            self._evidence.write_for(template.slot, template.shown)

    def judge(self, hard: Collection[int], epoch: int, step: int) -> None:
        """Bring what is proven into use, drop what is not, and what a full library has no room for: those
        that solved least of late on the questions that are hard now."""
        for template in self._library.in_state("trial"):
            others = unseen(template, hard, self._evidence) if self._settings.proof else []
            stale = epoch - template.since > _PATIENCE
            joins = verdict(template, proof=bool(others), stale=stale)
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
                self._drop(template)  # it may come again when there is room

    def _failed_on(self, template: Template, step: int) -> list[int]:
        """Return those questions that it was written for near which it was tried and solved nothing: it may
        be what others need that it was never tried on."""
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
