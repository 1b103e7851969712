"""Algorithm 3 with the batches of neighbouring waves joined: `p2o.overlap_waves`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from prompt_coevo.algorithms.p2o.search import Attempt, Search, SearchEnded
from prompt_coevo.types import Candidate


class OverlappedSearch(Search):
    """One batch has the parents of a wave, the children of the wave before, and the dev questions of the
    one before that. What is under way when a search ends is brought to its end, unless the policy fails."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._children: list[Attempt] = []
        self._accepted: list[Candidate] = []
        self._end: SearchEnded | None = None

    def _run_waves(self) -> None:
        while True:
            attempts = self._until_the_end(lambda: self._attempts(self._next_parents()))
            if not (attempts or self._children or self._accepted):
                break
            of_parents, of_children, on_dev = self._evaluate(
                self._parents_of(attempts),
                self._children_of(self._children),
                self._on_dev(self._accepted),
            )
            self._take_in(self._accepted, on_dev)
            self._accepted = self._judge(self._children, of_children)
            self._children = []
            if attempts:
                propose = partial(self._propose, attempts, of_parents)
                self._children = self._until_the_end(propose)
        if self._end is not None:
            raise self._end

    def _until_the_end(self, begin: Callable[[], list[Attempt]]) -> list[Attempt]:
        """What begins now; nothing once the search has ended, which is kept until all is done."""
        if self._end is None:
            try:
                return begin()
            except SearchEnded as end:
                self._end = end
        return []

    @property
    def _reserved(self) -> int:
        return self._budget.rest_of(len(self._children), len(self._accepted))

    def _known_texts(self) -> set[str]:
        under_way = [*self._accepted, *(one.child for one in self._children if one.child)]
        return super()._known_texts() | {template.text for template in under_way}
