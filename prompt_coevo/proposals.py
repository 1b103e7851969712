"""What a proposer is asked and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from prompt_coevo.placement import question_text
from prompt_coevo.types import Candidate, CandidateKind, Question


@dataclass(frozen=True)
class Trajectory:
    """One rollout as a reflection model gets to see it."""

    question: str
    completion: str
    reward: float
    ground_truth: str | None = None

    @classmethod
    def of(cls, question: Question, completion: str, reward: float) -> Trajectory:
        """With the texts of a question."""
        return cls(question_text(question.prompt), completion, reward, question.ground_truth)


@dataclass(frozen=True)
class ProposalRequest:
    """Write `count` new candidates from `parents` (usually one), given trajectories that failed.

    `proposer` names who is to answer. `history` holds candidates that were tried, with their scores: for
    templates the share of rollouts that succeeded.
    """

    kind: CandidateKind
    parents: tuple[Candidate, ...]
    failures: tuple[Trajectory, ...]
    proposer: str = "propose_improvement"
    count: int = 1
    history: tuple[tuple[str, float], ...] = ()

    @property
    def parent(self) -> Candidate:
        """The first parent."""
        return self.parents[0]


@dataclass(frozen=True)
class Usage:
    """What one call to a language model cost."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0


@dataclass(frozen=True)
class Reply:
    """What a language model answered: a text, or the error that stands in its place.

    `retry_after` says that the same request may have more luck, and after how many seconds at the
    earliest; None where asking again does not help.
    """

    text: str | None
    finish_reason: str | None = None
    error: str | None = None
    usage: Usage = Usage()
    retry_after: float | None = None


@dataclass(frozen=True)
class Proposal:
    """A proposer's answer to one request.

    `texts` are the candidates found in the reply. If there are none, `problem` says why: the call
    failed (`failed` is true), or the reply held no candidate.
    """

    request: ProposalRequest
    texts: tuple[str, ...]
    reply: Reply
    request_hash: str = ""
    problem: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the call itself failed, so that trying on is pointless."""
        return self.reply.error is not None


class LanguageModel(Protocol):
    """Anything that answers prompts. Errors come back as replies; nothing is raised.

    It is asked for one prompt at a time, by several threads, so that every call can be accounted for; one
    that has an attribute `batched = True` gets all prompts at once. A method `most(prompt)`, if it has
    one, says what a call can cost at most: a `Usage`. Budgets in tokens and dollars are then never
    exceeded. A method `brief(prompt, most_tokens, seconds)`, if it has
    one, gives a short `Reply` in a short time: the check before a run asks it.
    """

    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        """One reply per prompt, in order, asked for concurrently."""
        ...


class RecordedModel(LanguageModel, Protocol):
    """A model whose requests can be told apart in the journal."""

    def request_hash(self, prompt: str) -> str:
        """Identifies a request."""
        ...


class Proposer(Protocol):
    """Writes candidates: reflection, paraphrase, ..."""

    def propose(self, requests: Sequence[ProposalRequest]) -> list[Proposal]:
        """One proposal per request, in order."""
        ...
