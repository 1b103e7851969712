"""Replace `vllm.outputs`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Logprob:
    """A token's log-prob."""

    logprob: float


@dataclass(frozen=True)
class CompletionOutput:
    """One response, with the end token if it has one."""

    token_ids: list[int]
    text: str
    logprobs: list[dict[int, Logprob]] | None
    finish_reason: Literal["stop", "length"]


@dataclass(frozen=True)
class RequestOutput:
    """The responses to one request."""

    outputs: list[CompletionOutput]
