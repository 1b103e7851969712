"""The records of a run, which `fold.py` builds from its journal."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from prompt_coevo.errors import CoevoError
from prompt_coevo.lines import JSON
from prompt_coevo.thresholds import in_single_precision
from prompt_coevo.types import EMPTY_TEMPLATE

Fate: TypeAlias = Literal[
    "in use", "won its trial", "on trial", "lost its trial", "refused", "dropped", "undone"
]


class RunError(CoevoError):
    """A run cannot be read, or does not contain what was asked for."""


class Moment(NamedTuple):
    """The time of an event: attempt, weight updates so far, clock (UTC), and its number in the journal."""

    attempt: int
    step: int
    time: str
    place: int = 0

    def __str__(self) -> str:
        return f"step {self.step}" + (f" of attempt {self.attempt}" if self.attempt else "")


NEVER: Final = Moment(0, 0, "")


@dataclass(frozen=True)
class Call:
    """One call to the reflection model, with its `prompt` and the `text` of the reply."""

    at: Moment
    number: int
    request: str
    prompt: str | None
    text: str | None
    error: str | None
    finish_reason: str | None
    prompt_tokens: int
    completion_tokens: int
    usd: float


class Spent(NamedTuple):
    """The totals of some calls."""

    calls: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    usd: float

    @classmethod
    def on(cls, calls: Iterable[Call]) -> Spent:
        """Sum up calls."""
        found = list(calls)
        failed = sum(call.error is not None for call in found)
        prompt = sum(call.prompt_tokens for call in found)
        completion = sum(call.completion_tokens for call in found)
        return cls(len(found), failed, prompt, completion, sum(call.usd for call in found))


@dataclass(frozen=True)
class Check:
    """A proposal at the gates: accepted if `reason` is None."""

    at: Moment
    request: str
    reason: str | None


@dataclass(frozen=True)
class OneQuestion:
    """A question of a trial: rewards of parent and child, and the texts that were kept."""

    id: str
    text: str | None
    parent_reward: float
    reward: float
    parent_completion: str | None
    completion: str | None


@dataclass(frozen=True)
class TrialRecord:
    """A candidate's trial against its parent, on the same questions."""

    at: Moment
    parent: str
    accepted: bool
    questions: tuple[OneQuestion, ...]

    @property
    def parent_mean(self) -> float | None:
        return mean([one.parent_reward for one in self.questions])

    @property
    def mean(self) -> float | None:
        return mean([one.reward for one in self.questions])


@dataclass(frozen=True)
class Turn:
    """A change of a candidate's fate, and why, in words."""

    at: Moment
    fate: Fate
    why: str


@dataclass(frozen=True)
class Evidence:
    """A measurement of a template by a search or by training's own groups, in words."""

    at: Moment
    words: str


class Judged(NamedTuple):
    """The reward of one rollout in a trial or a search."""

    at: Moment
    question: str
    template: str
    reward: float


@dataclass
class Score:
    """The number and total reward of rollouts of one template on one question."""

    rollouts: int = 0
    total: float = 0.0

    def add(self, rollouts: int, reward: float) -> None:
        self.rollouts += rollouts
        self.total += rollouts * reward

    @property
    def mean(self) -> float | None:
        return self.total / self.rollouts if self.rollouts else None


@dataclass
class CandidateRecord:
    """A candidate and its history, oldest first."""

    id: str
    kind: str = ""
    """Empty, like `text`, `origin` and `parents`, if the journal only has the id."""
    text: str = ""
    origin: str = ""
    parents: tuple[str, ...] = ()
    born: Moment = NEVER
    checks: list[Check] = field(default_factory=list)
    trials: list[TrialRecord] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)

    @property
    def fate(self) -> Fate:
        return self.turns[-1].fate if self.turns else "on trial"

    @property
    def why(self) -> str:
        return self.turns[-1].why if self.turns else "it passed the gates"

    @property
    def requests(self) -> dict[str, None]:
        """The ids of the requests that it came from, in order."""
        return dict.fromkeys(check.request for check in self.checks)


@dataclass
class Step:
    """The numbers of one weight update."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    templated: float | None = None
    """Mean reward of the rollouts under a template."""
    untemplated: float | None = None
    hard_templated: float | None = None
    """The same on questions that had templates."""
    hard_untemplated: float | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    """The instructions' weights by id."""
    uses: tuple[tuple[str, str | None, int, float], ...] = ()
    """Question id, template id or None, number of rollouts, mean reward."""


@dataclass(frozen=True)
class Note:
    """An event that is shown with its raw fields."""

    at: Moment
    event: str
    text: str


@dataclass(frozen=True)
class Ending:
    """The summary at the end of a run. `findings` are the methods' verdicts and numbers, by method."""

    text: str
    lines: tuple[str, ...]
    findings: Mapping[str, JSON]


@dataclass
class Run:
    """A whole run, without what a resume has undone."""

    folder: str
    begun: str = ""
    last: Moment = NEVER
    ended: bool = False
    refused: str | None = None
    """Why the latest attempt was refused before its first step."""
    ending: Ending | None = None
    settings: dict[str, JSON] = field(default_factory=dict)
    noted: dict[str, JSON] = field(default_factory=dict)
    attempts: list[Moment] = field(default_factory=list)
    events: int = 0
    damaged: int = 0
    """Lines that cannot be read."""
    lost: int = 0
    """Events that could not be written, as on a full disk."""
    candidates: dict[str, CandidateRecord] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    requests: dict[str, list[Call]] = field(default_factory=dict)
    """Calls by request: several if it was retried."""
    empty_replies: list[Check] = field(default_factory=list)
    """Replies in which no candidate was found."""
    steps: dict[int, Step] = field(default_factory=dict)
    judged: list[Judged] = field(default_factory=list)
    questions: dict[str, str] = field(default_factory=dict)
    """Texts by question id; the journal may not have all of them."""
    notes: deque[Note] = field(default_factory=lambda: deque(maxlen=200))
    """The latest ones, oldest first."""
    others: dict[str, int] = field(default_factory=dict)
    """Counts of events that the report does not know, by name."""

    @property
    def state(self) -> str:
        """Describe whether the run has ended, was refused, or neither, in words."""
        if self.refused is not None:
            attempt = f" of attempt {self.last.attempt}" if self.last.attempt else ""
            return f"refused before the first step{attempt}: {self.refused}"
        return "ended" if self.ended else "running, or killed"

    @property
    def methods(self) -> list[str]:
        """The algorithms in the run's settings."""
        names = self.settings.get("algorithms")
        return [str(one) for one in names] if isinstance(names, list) else []

    @property
    def solved_at(self) -> float:
        """The reward from which a question counts as solved."""
        for name in self.methods:
            value = self.settings.get(f"{name}.solved_at")
            if isinstance(value, int | float):
                return in_single_precision(value)
        return 1.0

    def calls_of(self, one: CandidateRecord, *, latest: int = 0) -> list[Call]:
        """Return the calls that a candidate came from, or only those of its `latest` requests."""
        requests = list(one.requests)[-latest:]
        return [call for request in requests for call in self.requests.get(request, [])]

    def weights(self) -> Mapping[str, float]:
        """Return the latest weights of the instructions in the population."""
        found = (self.steps[number].weights for number in sorted(self.steps, reverse=True))
        return next(filter(None, found), {})

    def uses(self, templates: Container[str]) -> dict[str, dict[str, Score]]:
        """Return the scores of training's own rollouts under some templates, by template and question."""
        found: dict[str, dict[str, Score]] = {}
        for step in self.steps.values():
            for question, template, rollouts, reward in step.uses:
                if template is not None and template in templates:
                    scores = found.setdefault(template, {})
                    scores.setdefault(question, Score()).add(rollouts, reward)
        return found

    def scores(self) -> dict[tuple[str, str | None], Score]:
        """Return the scores of all rollouts (training, trials, searches) by question and template."""
        found: defaultdict[tuple[str, str | None], Score] = defaultdict(Score)
        bare = EMPTY_TEMPLATE.id
        for one in self.judged:
            found[one.question, None if one.template == bare else one.template].add(1, one.reward)
        for step in self.steps.values():
            for question, template, rollouts, reward in step.uses:
                found[question, None if template == bare else template].add(rollouts, reward)
        return found

    def solved_by_template(self, scores: Mapping[tuple[str, str | None], Score]) -> Counter[str]:
        """Count for each template the questions whose mean reward under it counts as solved."""
        least = self.solved_at
        return Counter(
            template
            for (_, template), score in scores.items()
            if template is not None and (score.mean or 0.0) >= least
        )


def mean(values: list[float]) -> float | None:
    """Return the mean, None for no values."""
    return sum(values) / len(values) if values else None
