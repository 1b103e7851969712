"""The library of templates, and the states they pass through: on trial, in use, dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypedDict

from prompt_coevo.types import EMPTY_TEMPLATE, Candidate

State: TypeAlias = Literal["trial", "in use"]

_DROPPED: Final = 1_024
_SHOWN: Final = 64
"""A template remembers at most this many questions that it was written for, the latest ones."""
_SOLVED: Final = 8


class Dropped(NamedTuple):
    """A template that was dropped: its text, and the numbers of the questions that it was written for and
    failed on."""

    text: str
    shown: tuple[int, ...]


@dataclass
class Template:
    """A template in a slot.

    `shown` are the numbers of the questions that its proposer saw fail, `since` is the epoch of its
    arrival. On trial, it counts its rollouts on hard questions like these: all of them, and those on
    questions that the proposer did not see. `solved_on` are the questions that it solved last.
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
    solved_on: tuple[int, ...] = ()

    def write_for(self, shown: Sequence[int], *, anew: bool) -> None:
        """Add questions that the template was proposed for again. `anew`: they are of another kind, so
        earlier failures must not end the trial."""
        self.shown = tuple(dict.fromkeys((*shown, *self.shown)))[:_SHOWN]
        if anew and not self.solved:
            self.tried = self.tried_unseen = 0

    def count(self, question: int, solved: bool) -> None:
        """Count one rollout of the trial."""
        self.tried += 1
        self.solved += solved
        if solved:
            self.solved_on = tuple(dict.fromkeys((question, *self.solved_on)))[:_SOLVED]
        if question not in self.shown:
            self.tried_unseen += 1
            self.solved_unseen += solved


class LibraryState(TypedDict):
    """The saved `Library`: the fields of its templates, and text and questions of the dropped ones."""

    templates: list[dict[str, Any]]
    dropped: dict[str, list[Any]]


class Library:
    """Templates by id and by slot. Slot 0 is the empty template, which is always in use.

    At most `size` others are in use. Slots of dropped templates are reused. Up to 1 024 dropped templates
    are remembered, so that they are not tried again on questions like those they failed on.
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
        """The dropped templates, by id."""
        return self._dropped

    def add(self, candidate: Candidate, shown: Sequence[int], epoch: int) -> Template:
        """Add a new template, on trial, in the lowest free slot."""
        taken = {template.slot for template in self}
        slot = next(number for number in range(len(taken) + 1) if number not in taken)
        template = Template(candidate, slot, tuple(shown), epoch)
        self._templates[candidate.id] = template
        return template

    def drop(self, template: Template, failed_on: Sequence[int] = ()) -> None:
        """Remove a template. It will not be tried again on questions like those in `failed_on`."""
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
        """Count the templates in use beyond the library's size."""
        return max(0, len(self.in_state("in use")) - 1 - self._size)

    def to_json(self, ids: Sequence[str]) -> LibraryState:
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
                "solved_on": [ids[question] for question in template.solved_on],
            }
            for template in self
            if template.slot
        ]
        dropped = {
            name: [one.text, [ids[question] for question in one.shown]]
            for name, one in self._dropped.items()
        }
        return {"templates": templates, "dropped": dropped}

    def load(self, state: LibraryState, numbers: Mapping[str, int]) -> None:
        """Restore what `to_json` returned; questions that are gone are skipped."""
        for line in state["templates"]:
            values = dict(line)
            candidate = Candidate.from_json(values.pop("candidate"))
            for name in ("shown", "solved_on"):
                values[name] = tuple(numbers[one] for one in values[name] if one in numbers)
            self._templates[candidate.id] = Template(candidate, **values)
        for name, (text, shown) in state["dropped"].items():
            if still := tuple(numbers[one] for one in shown if one in numbers):
                self._dropped[name] = Dropped(text, still)
