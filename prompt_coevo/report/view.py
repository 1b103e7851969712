"""What the page shows of a run: folded where there is too much, and saying so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from prompt_coevo.report.charts import SERIES, Series
from prompt_coevo.report.differences import Piece, pieces
from prompt_coevo.report.run import Call, CandidateRecord, Fate, Run, Score, Step
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


@dataclass(frozen=True)
class Graph:
    """A chart with the table of its numbers: `rows` hold x and a value for each series, or None."""

    name: str
    title: str
    y_label: str
    series: tuple[Series, ...]
    rows: tuple[tuple[int, tuple[float | None, ...]], ...]
    left_out: int
    """Rows that the table does not show: every so many are there."""


@dataclass(frozen=True)
class Branch:
    """A line of the lineage: how deep it stands, and how many of its children are not shown."""

    candidate: CandidateRecord
    depth: int


@dataclass(frozen=True)
class Card:
    """A candidate with what belongs to it."""

    candidate: CandidateRecord
    parent: CandidateRecord | None
    diff: tuple[Piece, ...]
    calls: tuple[Call, ...]
    uses: tuple[tuple[str, Score], ...]
    weight: float | None


@dataclass(frozen=True)
class GridRow:
    """A question and its scores under none of the templates, and under each of them."""

    number: int
    question: str
    text: str
    bare: Score | None
    cells: tuple[Score | None, ...]


@dataclass(frozen=True)
class View:
    """All that the template needs."""

    run: Run
    fates: tuple[tuple[Fate, int], ...]
    graphs: tuple[Graph, ...]
    tree: tuple[Branch, ...]
    cards: tuple[Card, ...]
    folded: tuple[tuple[str, int], ...]
    """What became of the candidates that have no card, and of how many."""
    reasons: tuple[tuple[str, int], ...]
    """Why gates refused, and how often."""
    columns: tuple[CandidateRecord, ...]
    grid: tuple[GridRow, ...]
    more_columns: int
    more_questions: int
    calls: tuple[Call, ...]
    more_calls: int
    spent: Call
    """The sums of all calls."""


def view_of(run: Run) -> View:
    """Fold a run to what a page can hold."""
    real = [one for one in run.candidates.values() if one.id != EMPTY_TEMPLATE.id]
    shown = _chosen(real)
    names = {one.id for one in shown}
    rest = Counter(one.fate for one in real if one.id not in names)
    columns = _columns(run, real)
    questions = _questions(run, columns)
    requests: dict[str, list[Call]] = {}
    for call in run.calls:
        requests.setdefault(call.request, []).append(call)
    uses = _uses(run, names)
    last = next((run.steps[n].weights for n in sorted(run.steps)[::-1] if run.steps[n].weights), {})
    reasons = Counter(
        check.reason for one in real for check in one.checks if check.reason is not None
    )
    reasons.update(check.reason or "no candidate" for check in run.empty_replies)
    return View(
        run=run,
        fates=tuple((fate, count) for fate in SYMBOLS if (count := _count(real, fate))),
        graphs=tuple(graph for graph in _graphs(run) if graph.rows),
        tree=tuple(_tree(run, names)),
        cards=tuple(_card(run, one, requests, uses.get(one.id, {}), last) for one in shown),
        folded=tuple(rest.most_common()),
        reasons=tuple(reasons.most_common(20)),
        columns=tuple(columns[:COLUMNS]),
        grid=tuple(
            _row(run, number, one, columns) for number, one in enumerate(questions[:QUESTIONS])
        ),
        more_columns=max(0, len(columns) - COLUMNS),
        more_questions=max(0, len(questions) - QUESTIONS),
        calls=tuple(run.calls[-CALLS:]),
        more_calls=max(0, len(run.calls) - CALLS),
        spent=_sum(run),
    )


def _count(candidates: Sequence[CandidateRecord], fate: Fate) -> int:
    return sum(one.fate == fate for one in candidates)


def _chosen(candidates: Sequence[CandidateRecord]) -> list[CandidateRecord]:
    """Those in use and the latest of the others, in the order of their coming."""
    used = [one for one in candidates if one.fate == "in use"][-CANDIDATES:]
    others = [one for one in candidates if one.fate != "in use"]
    room = CANDIDATES - len(used)
    chosen = {one.id for one in [*used, *(others[-room:] if room else [])]}
    return [one for one in candidates if one.id in chosen]


def _sum(run: Run) -> Call:
    return Call(
        at=run.last,
        number=len(run.calls),
        request="",
        prompt=None,
        text=None,
        error=str(sum(call.error is not None for call in run.calls)),
        finish_reason=None,
        prompt_tokens=sum(call.prompt_tokens for call in run.calls),
        completion_tokens=sum(call.completion_tokens for call in run.calls),
        usd=sum(call.usd for call in run.calls),
    )


# Curves


def _graphs(run: Run) -> list[Graph]:
    numbers = sorted(run.steps)

    def of(label: str, value: Callable[[Step], float | None]) -> tuple[str, dict[int, float]]:
        found = {number: value(run.steps[number]) for number in numbers}
        return label, {number: one for number, one in found.items() if one is not None}

    def metric(name: str) -> Callable[[Step], float | None]:
        return lambda step: step.metrics.get(f"coevo/{name}")

    members = [name for number in numbers for name in run.steps[number].weights]
    latest = list(dict.fromkeys(reversed(members)))[:SERIES]
    weights = [of(name[:8], _weight(name)) for name in latest[::-1]]
    return [
        _graph(
            "learning",
            "Mean reward of training's rollouts",
            "mean reward",
            [
                of("without a template", lambda step: step.untemplated),
                of("under a template", lambda step: step.templated),
            ],
        ),
        _graph(
            "hard",
            "Mean reward on questions that have templates: hard ones",
            "mean reward",
            [
                of("without a template", lambda step: step.hard_untemplated),
                of("under a template", lambda step: step.hard_templated),
            ],
        ),
        _graph(
            "counts",
            "Hard questions, and templates at hand",
            "number",
            [
                of("hard questions", metric("hard_samples")),
                of("templates in use", metric("templates_in_use")),
                of("templates on trial", metric("templates_on_trial")),
                of("templates of the search", metric("cover_templates")),
            ],
        ),
        _graph("weights", f"Weights of the instructions (the latest {SERIES})", "weight", weights),
    ]


def _weight(name: str) -> Callable[[Step], float | None]:
    return lambda step: step.weights.get(name)


def _graph(
    name: str, title: str, y_label: str, lines: Sequence[tuple[str, dict[int, float]]]
) -> Graph:
    drawn = [(look, *line) for look, line in enumerate(lines) if line[1]]
    steps = sorted({number for _, _, points in drawn for number in points})
    every = -(-len(steps) // ROWS) or 1
    kept = steps[::-1][::every][::-1]
    return Graph(
        name,
        title,
        y_label,
        tuple(Series(label, sorted(points.items()), look) for look, label, points in drawn),
        tuple((number, tuple(points.get(number) for _, _, points in drawn)) for number in kept),
        len(steps) - len(kept),
    )


# Candidates


def _tree(run: Run, shown: set[str]) -> list[Branch]:
    """Parents before their children; one whose parent is not shown begins a tree of its own."""
    children = run.children
    roots = [
        one.id
        for one in run.candidates.values()
        if one.id in shown and not (one.parents and one.parents[0] in shown)
    ]
    waiting = [(name, 0) for name in reversed(roots)]
    seen: set[str] = set()
    found = []
    while waiting:
        name, depth = waiting.pop()
        if name in seen or name not in shown:
            continue
        seen.add(name)
        found.append(Branch(run.candidates[name], min(depth, _DEEPEST)))
        waiting += [(child, depth + 1) for child in reversed(children.get(name, []))]
    return found


def _card(
    run: Run,
    one: CandidateRecord,
    requests: dict[str, list[Call]],
    uses: dict[str, Score],
    weights: object,
) -> Card:
    parent = run.candidates.get(one.parents[0]) if one.parents else None
    asked = dict.fromkeys(check.request for check in one.checks)
    calls = [call for request in list(asked)[-2:] for call in requests.get(request, [])]
    diff = tuple(pieces(parent.text, one.text)) if parent and parent.text else ()
    weight = weights.get(one.id) if isinstance(weights, dict) else None
    ranked = sorted(uses.items(), key=lambda item: -item[1].rollouts)
    return Card(one, parent, diff, tuple(calls[-3:]), tuple(ranked[:10]), weight)


def _uses(run: Run, names: set[str]) -> dict[str, dict[str, Score]]:
    """Of training alone, by template and question."""
    found: dict[str, dict[str, Score]] = {}
    for step in run.steps.values():
        for question, template, rollouts, reward in step.uses:
            if template is not None and template in names:
                scores = found.setdefault(template, {})
                scores.setdefault(question, Score()).add(rollouts, reward)
    return found


# The grid


def _columns(run: Run, candidates: Sequence[CandidateRecord]) -> list[CandidateRecord]:
    """Templates in use, or where there are none those that were scored, the most successful first."""
    scored = {template for _, template in run.scores if template is not None}
    found = [one for one in candidates if one.kind == "template" and one.id in scored]
    used = [one for one in found if one.fate == "in use"]
    solved = run.solved_by_template()
    return sorted(used or found, key=lambda one: -solved.get(one.id, 0))


def _questions(run: Run, columns: Sequence[CandidateRecord]) -> list[str]:
    """Those that one of the templates was tried on, the best covered first."""
    shown = {one.id for one in columns[:COLUMNS]}
    rewards: dict[str, float] = {}
    for (question, template), score in run.scores.items():
        if template in shown:
            rewards[question] = max(rewards.get(question, 0.0), score.mean or 0.0)
    return sorted(rewards, key=lambda question: -rewards[question])


def _row(run: Run, number: int, question: str, columns: Sequence[CandidateRecord]) -> GridRow:
    cells = tuple(run.scores.get((question, one.id)) for one in columns[:COLUMNS])
    text = run.questions.get(question, question)
    return GridRow(number, question, text, run.scores.get((question, None)), cells)
