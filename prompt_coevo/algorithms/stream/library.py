"""The templates that a stream has at hand, and how one gets among those in use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from prompt_coevo.types import EMPTY_TEMPLATE, Candidate

State: TypeAlias = Literal["trial", "in use"]

_DROPPED: Final = 1_024
_SHOWN: Final = 64
"""Questions that a template is remembered to be written for, the latest ones."""


class Dropped(NamedTuple):
    """A template that was given up: its text, and the questions, by number, that it was written for and
    failed on."""

    text: str
    shown: tuple[int, ...]


@dataclass
class Template:
    """A template in a slot. `shown` are the questions, by number, that its proposer saw fail; `since`
    is the epoch in which it came.

    While on trial it counts its rollouts on hard questions like these: all, and those on questions that
    the proposer did not see.
    """

    candidate: Candidate
    slot: int
    shown: tuple[int, ...]
    since: int
    state: State = "trial"
    tried: int = 0
    solved: int = 0
    tried_unseen: int = 0
    solved_unseen: int = 0

    def write_for(self, shown: Sequence[int], *, anew: bool) -> None:
        """Remember that it was proposed for further questions, too. `anew`: they are of another kind, so
        that failures until now end no trial."""
        self.shown = tuple(dict.fromkeys((*shown, *self.shown)))[:_SHOWN]
        if anew and not self.solved:
            self.tried = self.tried_unseen = 0

    def count(self, question: int, solved: bool) -> None:
        """A rollout of its trial."""
        self.tried += 1
        self.solved += solved
        if question not in self.shown:
            self.tried_unseen += 1
            self.solved_unseen += solved


class Library:
    """Templates by id and by slot; slot 0 is the empty template's, which is always in use.

    At most `size` others are in use. The slots of dropped ones are used again; what was given up is
    remembered, 1 024 at most, so that it is not tried again on such questions.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._templates: dict[str, Template] = {}
        self._dropped: dict[str, Dropped] = {}
        self._templates[EMPTY_TEMPLATE.id] = Template(EMPTY_TEMPLATE, 0, (), 0, "in use")

    def __iter__(self) -> Iterator[Template]:
        return iter(self._templates.values())

    def get(self, template_id: str) -> Template | None:
        return self._templates.get(template_id)

    @property
    def dropped(self) -> Mapping[str, Dropped]:
        """What was given up, by id."""
        return self._dropped

    def add(self, candidate: Candidate, shown: Sequence[int], epoch: int) -> Template:
        """A new template, on trial."""
        taken = {template.slot for template in self}
        slot = next(number for number in range(len(taken) + 1) if number not in taken)
        template = Template(candidate, slot, tuple(shown), epoch)
        self._templates[candidate.id] = template
        return template

    def drop(self, template: Template, failed_on: Sequence[int] = ()) -> None:
        """Take it out of use. It is not tried again on questions like those that it failed on."""
        name = template.candidate.id
        del self._templates[name]
        if failed_on:
            before = self._dropped.pop(name, Dropped("", ()))
            shown = tuple(dict.fromkeys((*failed_on, *before.shown)))[:_SHOWN]
            self._dropped[name] = Dropped(template.candidate.text, shown)
        while len(self._dropped) > _DROPPED:
            del self._dropped[next(iter(self._dropped))]

    def in_state(self, state: State) -> list[Template]:
        return [template for template in self if template.state == state]

    @property
    def overfull(self) -> int:
        """How many more are in use than there should be."""
        return max(0, len(self.in_state("in use")) - 1 - self._size)

    def to_json(self, ids: Sequence[str]) -> dict[str, Any]:
        templates = [
            {
                "candidate": template.candidate.to_json(),
                "slot": template.slot,
                "shown": [ids[question] for question in template.shown],
                "since": template.since,
                "state": template.state,
                "tried": template.tried,
                "solved": template.solved,
                "tried_unseen": template.tried_unseen,
                "solved_unseen": template.solved_unseen,
            }
            for template in self
            if template.slot
        ]
        dropped = {
            name: [one.text, [ids[question] for question in one.shown]]
            for name, one in self._dropped.items()
        }
        return {"templates": templates, "dropped": dropped}

    def load(self, state: Mapping[str, Any], numbers: Mapping[str, int]) -> None:
        """Take up what `to_json` gave; questions that are gone are left out."""
        for line in state["templates"]:
            values = dict(line)
            candidate = Candidate.from_json(values.pop("candidate"))
            values["shown"] = tuple(numbers[one] for one in values["shown"] if one in numbers)
            self._templates[candidate.id] = Template(candidate, **values)
        for name, (text, shown) in state["dropped"].items():
            if still := tuple(numbers[one] for one in shown if one in numbers):
                self._dropped[name] = Dropped(text, still)
