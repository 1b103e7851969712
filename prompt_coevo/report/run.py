"""What a run's journal says, as records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

Fate: TypeAlias = Literal[
    "in use", "won its trial", "on trial", "lost its trial", "refused", "dropped", "undone"
]


class Moment(NamedTuple):
    """When something was written: the attempt, the weight updates so far, the clock (UTC), and which event
    of the journal it is."""

    attempt: int
    step: int
    time: str
    place: int = 0

    def __str__(self) -> str:
        return f"step {self.step}" + (f" of attempt {self.attempt}" if self.attempt else "")


@dataclass(frozen=True)
class Call:
    """One call to the reflection model. `prompt` and `text` are what it was shown and what it wrote."""

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


@dataclass(frozen=True)
class Check:
    """A proposal at the gates: let in if `reason` is None. `candidate` None: the reply held none."""

    at: Moment
    candidate: str | None
    parent: str | None
    request: str
    reason: str | None


@dataclass(frozen=True)
class OneQuestion:
    """A question of a trial: rewards of parent and child, and the texts as far as they were kept."""

    id: str
    text: str | None
    parent_reward: float
    reward: float
    parent_completion: str | None
    completion: str | None


@dataclass(frozen=True)
class TrialRecord:
    """A candidate next to its parent on the same questions."""

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
    """Something that became of a candidate: its fate from then on, and in words why."""

    at: Moment
    fate: Fate
    why: str


@dataclass
class Score:
    """Rollouts of one template on one question, and what they earned."""

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
    """A candidate and all that happened to it, oldest first."""

    id: str
    kind: str
    text: str
    origin: str
    parents: tuple[str, ...]
    checks: list[Check] = field(default_factory=list)
    trials: list[TrialRecord] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)

    @property
    def fate(self) -> Fate:
        return self.turns[-1].fate if self.turns else "on trial"

    @property
    def why(self) -> str:
        return self.turns[-1].why if self.turns else "it passed the gates"


@dataclass
class Step:
    """What is known of one weight update."""

    attempt: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    templated: float | None = None
    """Mean reward of the rollouts under a template."""
    untemplated: float | None = None
    hard_templated: float | None = None
    """The same on questions that had templates."""
    hard_untemplated: float | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of the instructions, by id."""
    uses: tuple[tuple[str, str | None, int, float], ...] = ()
    """Question, template or None, rollouts, mean reward."""


@dataclass(frozen=True)
class Note:
    """An event that is told as it stands."""

    at: Moment
    event: str
    text: str


@dataclass
class Run:
    """All of it. Steps are those of the attempt that counts: what a resume has undone is not there."""

    folder: str
    begun: str = ""
    last: Moment = field(default_factory=lambda: Moment(0, 0, ""))
    ended: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    noted: dict[str, Any] = field(default_factory=dict)
    attempts: list[Moment] = field(default_factory=list)
    events: int = 0
    damaged: int = 0
    """Lines that cannot be read."""
    lost: int = 0
    """Events that a full disk cost."""
    candidates: dict[str, CandidateRecord] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    empty_replies: list[Check] = field(default_factory=list)
    """Replies in which no candidate was found."""
    steps: dict[int, Step] = field(default_factory=dict)
    scores: dict[tuple[str, str | None], Score] = field(default_factory=dict)
    """By question and template: of training and of trials and searches."""
    questions: dict[str, str] = field(default_factory=dict)
    """Texts by question id, as far as they were written down."""
    population: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The latest ones."""
    others: dict[str, int] = field(default_factory=dict)
    """Kinds of events that are not known here, and how many of each."""

    @property
    def methods(self) -> list[str]:
        """Names of the algorithms, as the settings say."""
        names = self.settings.get("algorithms")
        return [str(one) for one in names] if isinstance(names, list) else []

    def of_request(self, request: str) -> list[Call]:
        """The calls for one request: more than one if it was asked again."""
        return [call for call in self.calls if call.request == request]

    @property
    def children(self) -> dict[str, list[str]]:
        """By parent, in the order of their coming."""
        found: dict[str, list[str]] = {}
        for candidate in self.candidates.values():
            if candidate.parents:
                found.setdefault(candidate.parents[0], []).append(candidate.id)
        return found

    @property
    def solved_at(self) -> float:
        """The reward from which on a question counts as solved."""
        value = self.settings.get("p2o.solved_at", 1.0)
        return float(value) if isinstance(value, int | float) else 1.0

    def solved_by_template(self) -> dict[str, int]:
        """On how many questions a template's rollouts earned on the average what counts as solved."""
        found: dict[str, int] = {}
        for (_, template), score in self.scores.items():
            if template is not None and (score.mean or 0.0) >= self.solved_at:
                found[template] = found.get(template, 0) + 1
        return found


def mean(values: list[float]) -> float | None:
    """None of none."""
    return sum(values) / len(values) if values else None
