"""Fuzz a search agent's texts: turns, observations, whole completions, answers and labels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from fuzz.source import Source, as_json, as_text
from fuzz.target import Target
from helpers.own_text import answer_of, own_spans
from prompt_coevo.errors import CoevoError
from prompt_coevo.retrieval.agent.episode import Search, SearchEpisode
from prompt_coevo.retrieval.agent.rollout import SearchRollout
from prompt_coevo.retrieval.agent.scoring import METRICS, golds_of, golds_of_label
from prompt_coevo.retrieval.agent.settings import SearchAgentSettings
from prompt_coevo.retrieval.agent.tags import first_action
from prompt_coevo.retrieval.bm25.analyzers import english
from prompt_coevo.retrieval.bm25.words import hashes
from prompt_coevo.retrieval.outcomes import Outage, Outcome, Refused
from prompt_coevo.retrieval.retriever import Hit

_ENGLISH: Final = english()
_RESERVED: Final = ("<|im_end|>", "</s>", "[INST]")


def episode(data: bytes) -> None:
    """Play an episode with arbitrary turns; only the model's own text counts, and it ends."""
    source = Source(data)
    played = SearchEpisode(source.below(4), reserved=_RESERVED)
    whole, turns = "", []
    while played.ended is None:
        turn = source.text(200)
        turns.append(turn)
        action = played.feed(turn)
        whole += turn
        if played.ended is not None:
            break
        found = _outcome(source) if isinstance(action, Search) else None
        seen = played.observe(found, (lambda text: text[:20]) if source.flag() else None)
        assert first_action(seen) is None
        assert seen.count("<information>") == seen.count("</information>") <= 1
        whole += seen
    assert answer_of(turns) == played.answer
    own_spans(whole)


def completions(data: bytes) -> None:
    """Read a whole completion that other code decoded."""
    text = as_text(data)
    spans = own_spans(text)
    assert all(span in text for span in spans)
    answer = answer_of(spans)
    for metric in METRICS.values():
        assert 0 <= metric(answer, [text, "Ada"]) <= 1
    hashes(_ENGLISH.words(text))


def labels(data: bytes) -> None:
    """Read a row's gold answers in the forms of a dataset column."""
    source = Source(data)
    label: Any = as_text(source.rest()) if source.flag() else source.value()
    if isinstance(label, (str, list)):
        golds = golds_of_label(label)
        assert isinstance(golds, (str, list))
    try:
        golds_of(label, "golds")
    except CoevoError:
        return


def tokens(data: bytes) -> None:
    """Build a rollout in tokens; it stays within its limit, and its masks match."""
    source = Source(data)
    settings = SearchAgentSettings(
        url="http://a", turn_tokens=1 + source.below(60), observation_tokens=1 + source.below(60)
    )
    room = source.below(200)
    rollout = SearchRollout([1, 2], _Bytes(), settings, room)
    while not rollout.over and rollout.turn_tokens:
        query = rollout.sampled(list(source.bytes(100)))
        if query is not None:
            rollout.observed(_outcome(source))
    assert len(rollout.trajectory.completion_ids) <= room
    assert len(rollout.trajectory.mask) == len(rollout.trajectory.completion_ids)


def agent_settings(data: bytes) -> None:
    """Read a job's settings for the search agent."""
    source = Source(data)
    whole = {"url": ["http://a"], "k": 3, "metric": "em", "retriever_options": {}, "max_turns": 2}
    values = source.wrong(whole)
    if isinstance(values, dict):
        try:
            SearchAgentSettings(**values)
        except CoevoError:
            return


class _Bytes:
    """A tokenizer whose tokens are bytes."""

    all_special_tokens: Sequence[str] = _RESERVED
    all_special_ids: Sequence[int] = ()
    added_tokens_decoder: Final[dict[int, str]] = {}

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": list(text.encode("utf-8", "surrogateescape"))}

    def encode(self, text: str, **_: Any) -> list[int]:
        return list(text.encode("utf-8", "replace"))

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return bytes(ids).decode("utf-8", "replace")


def _outcome(source: Source) -> Outcome:
    match source.below(4):
        case 0:
            return Outage("the server is gone")
        case 1:
            return Refused(source.text())
        case _:
            return [Hit("7", source.text(), 1.0, rank + 1) for rank in range(source.below(3))]


_TURN: Final = b"<think> I wonder. </think> <search> mayor of Bonn </search>"
_WHOLE: Final = _TURN + b"<information>Doc 1(Title: x) y</information><answer> Ada </answer>"

TARGETS = {
    "agents.episodes": Target(
        episode,
        (b"\3\0\x3b" + _TURN + b"\2\1\0\6abcdef\0\0\x20<answer>Ada</answer>", _TURN * 2),
        1.5,
    ),
    "agents.completions": Target(completions, (_WHOLE, b"<answer>a</answer>" * 3), 1.0),
    "agents.labels": Target(
        labels,
        (b"\1" + as_json(["Ada", 7]), b"\0" + bytes(range(30)), b"\1" + json.dumps("x").encode()),
        3.0,
    ),
    "agents.tokens": Target(tokens, (b"\x3b\x3b\xc8\x3b" + _TURN, bytes(range(120))), 1.0),
    "agents.settings": Target(agent_settings, (bytes(range(40)), b"\0\1", b"\1\2\2" * 9), 0.5),
}
