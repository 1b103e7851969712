"""Prepare a run for the page: cut lists that are too long, and say how much is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from prompt_coevo.report.charts import SERIES, Series
from prompt_coevo.report.differences import Piece, pieces
from prompt_coevo.report.run import Call, CandidateRecord, Fate, Run, Score, Spent, Step
from prompt_coevo.types import EMPTY_TEMPLATE

CANDIDATES: Final = 200
CALLS: Final = 200
QUESTIONS: Final = 100
COLUMNS: Final = 24
ROWS: Final = 200
_DEEPEST: Final = 8
SYMBOLS: Final[dict[Fate, str]] = {
    "in use": "●",
    "won its trial": "◐",
    "on trial": "○",
    "lost its trial": "▽",
    "refused": "✕",
    "dropped": "◇",
    "undone": "↺",
}


class Graph(NamedTuple):
    """A chart and the table of its numbers: each row has x and, for each series, a value or None."""

    name: str
    title: str
    y_label: str
    series: list[Series]
    rows: list[tuple[int, list[float | None]]]
    left_out: int
    """The number of rows that the table skips: it shows every n-th."""


class Card(NamedTuple):
    """A candidate with its details."""

    candidate: CandidateRecord
    diff: list[Piece]
    calls: list[Call]
    uses: list[tuple[str, Score]]
    weight: float | None


class GridRow(NamedTuple):
    """A question with its scores without a template and under each template."""

    text: str
    bare: Score | None
    cells: list[Score | None]


class View:
    """All values that the page's template needs. The run must not change meanwhile."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.spent = Spent.on(run.calls)
        self.calls = run.calls[-CALLS:]
        self.more_calls = len(run.calls) - len(self.calls)
        self._real = [one for one in run.candidates.values() if one.id != EMPTY_TEMPLATE.id]
        self._scores = run.scores()

    @cached_property
    def so_far(self) -> str:
        """The latest counts of hard questions in words; empty if there are none."""
        metrics = self.run.steps[max(self.run.steps)].metrics if self.run.steps else {}
        hard, solved = (
            metrics.get(f"coevo/{name}") for name in ("hard_so_far", "hard_solved_since")
        )
        if not hard:
            return ""
        solved_now = f"{solved or 0:.0f} of them are solved without a template"
        return f"{hard:.0f} questions were hard, and {solved_now}"

    # Candidates

    @cached_property
    def fates(self) -> list[tuple[Fate, int]]:
        counts = Counter(one.fate for one in self._real)
        return [(fate, counts[fate]) for fate in SYMBOLS if counts[fate]]

    @cached_property
    def shown(self) -> dict[str, CandidateRecord]:
        """The candidates in use and the latest others, in order of appearance."""
        used = [one.id for one in self._real if one.fate == "in use"][-CANDIDATES:]
        others = [one.id for one in self._real if one.fate != "in use"]
        room = CANDIDATES - len(used)
        chosen = {*used, *(others[-room:] if room else [])}
        return {one.id: one for one in self._real if one.id in chosen}

    @cached_property
    def folded(self) -> list[tuple[Fate, int]]:
        """The counts of candidates that are not shown, by fate."""
        return Counter(one.fate for one in self._real if one.id not in self.shown).most_common()

    @cached_property
    def reasons(self) -> list[tuple[str, int]]:
        """The gates' reasons to reject, and their counts."""
        checks = [check for one in self._real for check in one.checks]
        found = Counter(check.reason for check in checks if check.reason is not None)
        found.update(check.reason or "no candidate" for check in self.run.empty_replies)
        return found.most_common(20)

    @cached_property
    def tree(self) -> list[tuple[CandidateRecord, int]]:
        """The lineage as candidates with their depth, parents before children. A candidate whose parent is
        not shown is a root."""
        children: dict[str, list[str]] = {}
        roots = []
        for one in self.shown.values():
            if one.parents and one.parents[0] in self.shown:
                children.setdefault(one.parents[0], []).append(one.id)
            else:
                roots.append(one.id)
        waiting = [(name, 0) for name in reversed(roots)]
        found = []
        while waiting:
            name, depth = waiting.pop()
            found.append((self.shown[name], min(depth, _DEEPEST)))
            waiting += [(child, depth + 1) for child in reversed(children.get(name, []))]
        return found

    @cached_property
    def cards(self) -> list[Card]:
        run, weights, uses = self.run, self.run.weights(), self.run.uses(self.shown)
        found = []
        for one in self.shown.values():
            parent = run.candidates.get(one.parents[0]) if one.parents else None
            diff = pieces(parent.text, one.text) if parent and parent.text else []
            calls = run.calls_of(one, latest=2)[-3:]
            used = sorted(uses.get(one.id, {}).items(), key=lambda item: -item[1].rollouts)[:10]
            found.append(Card(one, diff, calls, used, weights.get(one.id)))
        return found

    # The grid of questions and templates

    @cached_property
    def _columns(self) -> list[CandidateRecord]:
        """The scored templates in use, or all scored ones if none is in use; the most successful first."""
        scored = {template for _, template in self._scores}
        found = [one for one in self._real if one.kind == "template" and one.id in scored]
        used = [one for one in found if one.fate == "in use"]
        solved = self.run.solved_by_template(self._scores)
        return sorted(used or found, key=lambda one: -solved[one.id])

    @cached_property
    def _questions(self) -> list[str]:
        """The questions that one of the shown templates was tried on, by their best mean reward."""
        columns = {one.id for one in self.columns}
        rewards: dict[str, float] = {}
        for (question, template), score in self._scores.items():
            if template in columns:
                rewards[question] = max(rewards.get(question, 0.0), score.mean or 0.0)
        return sorted(rewards, key=lambda question: -rewards[question])

    @cached_property
    def columns(self) -> list[CandidateRecord]:
        return self._columns[:COLUMNS]

    @cached_property
    def grid(self) -> list[GridRow]:
        scores = self._scores
        return [
            GridRow(
                self.run.questions.get(question, question),
                scores.get((question, None)),
                [scores.get((question, one.id)) for one in self.columns],
            )
            for question in self._questions[:QUESTIONS]
        ]

    @cached_property
    def more_columns(self) -> int:
        return max(0, len(self._columns) - COLUMNS)

    @cached_property
    def more_questions(self) -> int:
        return max(0, len(self._questions) - QUESTIONS)

    # Curves

    @cached_property
    def graphs(self) -> list[Graph]:
        steps = self.run.steps
        members = [name for number in sorted(steps) for name in steps[number].weights]
        latest = list(dict.fromkeys(reversed(members)))[:SERIES]
        found = [
            self._graph(
                ("learning", "Mean reward of training's rollouts", "mean reward"),
                ("without a template", lambda step: step.untemplated),
                ("under a template", lambda step: step.templated),
            ),
            self._graph(
                ("hard", "Mean reward on questions that have templates: hard ones", "mean reward"),
                ("without a template", lambda step: step.hard_untemplated),
                ("under a template", lambda step: step.hard_templated),
            ),
            self._graph(
                ("counts", "Hard questions, and templates at hand", "number"),
                ("hard questions", _metric("hard_samples")),
                ("templates in use", _metric("templates_in_use")),
                ("templates on trial", _metric("templates_on_trial")),
                ("templates of the search", _metric("cover_templates")),
            ),
            self._graph(
                ("weights", f"Weights of the instructions (the latest {SERIES})", "weight"),
                *((name[:8], _weight(name)) for name in reversed(latest)),
            ),
        ]
        return [graph for graph in found if graph.rows]

    def _graph(
        self, names: tuple[str, str, str], *lines: tuple[str, Callable[[Step], float | None]]
    ) -> Graph:
        """Build a graph; `lines` are labels and functions from a step to a value.

        A line without values is left out, and the others keep their looks.
        """
        steps = sorted(self.run.steps.items())
        series: list[Series] = []
        columns: list[dict[int, float]] = []
        for look, (label, value) in enumerate(lines):
            points = {number: one for number, step in steps if (one := value(step)) is not None}
            if points:
                series.append(Series(label, list(points.items()), look))
                columns.append(points)
        numbers = sorted(set().union(*columns))
        kept = _some(numbers)
        rows = [(number, [column.get(number) for column in columns]) for number in kept]
        return Graph(*names, series, rows, len(numbers) - len(kept))


def _some(numbers: Sequence[int]) -> Sequence[int]:
    """Return at most `ROWS` evenly spaced numbers, including the last one."""
    every = -(-len(numbers) // ROWS) or 1
    return numbers[::-1][::every][::-1]


def _metric(name: str) -> Callable[[Step], float | None]:
    return lambda step: step.metrics.get(f"coevo/{name}")


def _weight(name: str) -> Callable[[Step], float | None]:
    return lambda step: step.weights.get(name)
