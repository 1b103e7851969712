"""Requests to proposers and language models, and their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from prompt_coevo.placement import question_text
from prompt_coevo.types import Candidate, CandidateKind, Question


@dataclass(frozen=True)
class Trajectory:
    """A rollout as it is shown to the reflection model."""

    question: str
    completion: str
    reward: float
    ground_truth: str | None = None

    @classmethod
    def of(cls, question: Question, completion: str, reward: float) -> Trajectory:
        """Build a trajectory with the texts of a question."""
        return cls(question_text(question.prompt), completion, reward, question.ground_truth)


@dataclass(frozen=True)
class ProposalRequest:
    """A request for `count` new candidates from `parents` (usually one), given failed trajectories.

    `proposer` names the proposer that answers. `history` holds earlier candidates with their scores: for
    templates the share of successful rollouts.
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
    """The cost of one call to a language model."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0


@dataclass(frozen=True)
class Reply:
    """A language model's answer: a text, or an error.

    `retry_after` are the seconds to wait before the same request is sent again; None if a retry would
    not help.
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
    failed (`failed` is true), or the reply contained no candidate.
    """

    request: ProposalRequest
    texts: tuple[str, ...]
    reply: Reply
    request_hash: str = ""
    problem: str | None = None

    @property
    def failed(self) -> bool:
        """True if the call itself failed, so that further requests are pointless."""
        return self.reply.error is not None


class LanguageModel(Protocol):
    """Anything that answers prompts. Errors are returned as replies, never raised.

    Several threads call it with one prompt each, so that every call can be accounted for; a model with an
    attribute `batched = True` gets all prompts at once. Two methods are optional. `most(prompt)` returns
    the highest possible cost of a call as a `Usage`: budgets in tokens and dollars are then never exceeded.
    `brief(prompt, most_tokens, seconds)` returns a short `Reply` in a short time, for the preflight.
    """

    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        """Return one reply per prompt, in order. Prompts are sent concurrently."""
        ...


class RecordedModel(LanguageModel, Protocol):
    """A model whose requests have an id in the journal."""

    def request_hash(self, prompt: str) -> str:
        """Return the id of a request."""
        ...


class Proposer(Protocol):
    """A strategy for writing candidates: reflection, paraphrase, ..."""

    def propose(self, requests: Sequence[ProposalRequest]) -> list[Proposal]:
        """Return one proposal per request, in order."""
        ...
