"""Fuzz a reflection model's answers: candidates in its text, and backends that return nonsense."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

from fuzz.source import Source, as_text
from fuzz.target import Target
from prompt_coevo import Coevolution, Settings
from prompt_coevo.proposals import ProposalRequest, Reply, Trajectory, Usage
from prompt_coevo.reflection.ledger import Ledger
from prompt_coevo.reflection.litellm_model import LiteLLMModel
from prompt_coevo.reflection.paid_replies import PaidReplies
from prompt_coevo.reflection.proposers.tags import extract_tagged
from prompt_coevo.types import Candidate


def tagged(data: bytes) -> None:
    """Extract candidates or report a problem; a candidate contains none of its own tags."""
    source = Source(data)
    tag = source.pick(("template", r"ins_[1-9]\d*"))
    texts, problem = extract_tagged(as_text(source.rest()), tag)
    assert (problem is None) == bool(texts)
    assert all(text == text.strip() for text in texts)


def proposed(data: bytes) -> None:
    """Build a request from arbitrary texts and parse an arbitrary reply."""
    source = Source(data)
    name = source.pick(("propose_improvement", "reflection", "paraphrase", "history"))
    kind = "template" if name == "propose_improvement" else "instruction"
    request = ProposalRequest(
        kind,
        (Candidate(source.text(), kind),),
        (Trajectory(source.text(), source.text(), source.below(256) / 16, source.text()),),
        name,
        count=1 + source.below(3),
        history=((source.text(), source.below(256) / 16),),
    )
    engine = _engine()
    _said[0] = as_text(source.rest())
    [proposal] = engine.context.proposer(name).propose([request])
    assert len(proposal.texts) <= request.count
    assert proposal.texts or proposal.problem


def answered(data: bytes) -> None:
    """Call a third-party model that may return anything; the worst outcome is an error."""
    source = Source(data)
    model = _Nonsense(source)
    replies = PaidReplies(model, {}, Ledger(None), total_timeout_s=0.0)
    prompts = [source.text() for _ in range(1 + source.below(2))]
    found = replies.complete(prompts)
    assert len(found) == len(prompts)
    for reply in found:
        assert isinstance(reply.text, str | None)
        assert isinstance(reply.error, str | None)
        assert reply.usage.usd >= 0


def responded(data: bytes) -> None:
    """Read a server's response as litellm passes it on, with any field wrong."""
    source = Source(data)
    response = _response(source)
    model = _litellm_model()
    [reply] = PaidReplies(_Once(model, response), {}, Ledger(None), total_timeout_s=0.0).complete(
        ["a prompt"]
    )
    assert isinstance(reply.text, str | None)
    assert isinstance(reply.error, str | None)


class _Nonsense:
    def __init__(self, source: Source) -> None:
        self._source = source

    def complete(self, prompts: Sequence[str]) -> list[Any]:
        source = self._source
        if source.below(8) == 7:
            return [source.value()]
        return [
            Reply(*self._some(source.text), usage=self._usage(), retry_after=self._one(float))
            for _ in prompts
        ]

    def _some(self, usual: Any) -> list[Any]:
        return [self._one(usual) for _ in range(3)]

    def _one(self, usual: Any) -> Any:
        return (usual(), None, self._source.value())[self._source.below(3)]

    def _usage(self) -> Any:
        source = self._source
        if source.below(4) == 3:
            return source.value()
        return Usage(*(source.value(0) for _ in range(3)))


class _Once:
    """The part of the model that reads a response."""

    def __init__(self, model: LiteLLMModel, response: Any) -> None:
        self._model, self._response = model, response

    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        return [self._model._read(self._response) for _ in prompts]


def _response(source: Source) -> Any:
    message = SimpleNamespace(content=source.value() if source.flag() else source.text())
    choice = SimpleNamespace(message=message, finish_reason=source.value(0))
    usage = SimpleNamespace(prompt_tokens=source.value(0), completion_tokens=source.value(0))
    choices = source.pick(([choice], [], None, "ab", [None]))
    return SimpleNamespace(choices=choices, usage=source.pick((usage, None, 5)))


@cache
def _litellm_model() -> LiteLLMModel:
    model = LiteLLMModel.__new__(LiteLLMModel)  # without litellm, which takes seconds to import
    settings = Settings(reflection={"model": "openai/x"}).reflection
    model.__dict__.update(
        _litellm=SimpleNamespace(completion_cost=lambda **_: 0.0),
        _settings=settings,
        _model="x",
        _server="the server",
    )
    return model


_said = [""]


@cache
def _engine() -> Coevolution:
    return Coevolution.from_settings(Settings(reflection={"function": lambda _: _said[0]}))


_TAGGED = (
    b"\0<think>a</think><template>Think of it.</template>",
    b"\1<ins_1>a</ins_1>\n<ins_2>b</ins_2>",
    b"\1<ins_1><ins_2></ins_2></ins_1>",
    b"\0<template></template",
)

TARGETS = {
    "replies.tags": Target(tagged, _TAGGED, 10.0),
    "replies.proposers": Target(
        proposed, (bytes(range(60)) + b"<template>x</template>", b"\2" * 40 + _TAGGED[1]), 0.15
    ),
    "replies.models": Target(answered, (bytes(range(100)), b"", b"\7" * 50), 0.5),
    "replies.servers": Target(responded, (bytes(range(100)), b"", b"\3" * 50), 0.5),
}
