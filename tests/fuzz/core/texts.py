"""Fuzz the text handling: border, gates, leak guard, redaction, fences, placement."""

from __future__ import annotations

import copy
import os
from functools import cache
from typing import Any, Final, Literal
from unittest.mock import patch

from fuzz.source import Source, as_text
from fuzz.target import Target
from prompt_coevo import Settings
from prompt_coevo.candidates import gates
from prompt_coevo.candidates.border import cross
from prompt_coevo.candidates.leaks import LeakGuard, LeakGuards
from prompt_coevo.candidates.normal_words import normal_line, readings
from prompt_coevo.errors import CoevoError
from prompt_coevo.fences import FENCE, OWN_TAG
from prompt_coevo.placement import Placement, check_layout, fill, question_text, system_message
from prompt_coevo.proposals import Trajectory
from prompt_coevo.redact import redact
from prompt_coevo.reflection.proposers.excerpts import cut, neutralise_fences, show_failure
from prompt_coevo.types import Question


def border(data: bytes) -> None:
    """Cross twice with the same result; accepted text can be written as UTF-8."""
    crossed = cross(as_text(data))
    assert cross(crossed.text) == crossed
    if crossed.refusal is None:
        crossed.text.encode()
        assert "\r" not in crossed.text


def checked(data: bytes) -> None:
    """Judge any text, with any parents."""
    source = Source(data)
    parents = [source.text() for _ in range(source.below(3))]
    tags = [source.text(8) for _ in range(source.below(2))]
    text = as_text(source.rest())
    refused = gates.refusal(
        text, parents=parents, required_tags=tags, max_tokens=50, leak_guard=_guard()
    )
    assert refused is None or refused
    if refused is None and not parents and not tags:
        assert not OWN_TAG.search(text)


def leaks(data: bytes) -> None:
    """Build a leak guard for any questions; it reads any text and finds a question in itself."""
    source = Source(data)
    question, truth, text = source.text(), source.text(16), as_text(source.rest())
    questions = [Question("a", question, truth), Question("b", text, None)]
    guard = LeakGuards(Settings().gates).guard(questions)
    guard.find(text, allowed=truth)
    words = normal_line(text).split()
    if len(words) >= 8:
        assert guard.find(text) is not None
        assert guard.find(text, allowed=text) is None
    assert all(isinstance(reading, str) for reading in readings(text))


def redacted(data: bytes) -> None:
    """Redact a key, whatever surrounds it."""
    source = Source(data)
    key, given = source.pick(_KEYS), as_text(source.bytes(12))
    text = as_text(source.rest())
    with patch.dict(os.environ, {"OWN_API_KEY": key}, clear=True):
        found = redact(f"{text}{key}{text}", given)
        assert key not in found
        assert key not in redact(f"{key}{text}{key}", given)
        if len(given) >= 4:
            assert given not in redact(f"a {given} b", given)


def fenced(data: bytes) -> None:
    """Fence any text; none closes the fence around it."""
    source = Source(data)
    texts = [source.text() for _ in range(3)]
    text = as_text(source.rest())
    most = 1 + source.below(20)
    assert not FENCE.search(neutralise_fences(text))
    cut(text, most, gates.rough_token_count)
    shown = show_failure(
        1, Trajectory(text, texts[0], 0.5, texts[1]), most, gates.rough_token_count
    )
    assert len(OWN_TAG.findall(shown)) == 10


def layouts(data: bytes) -> None:
    """Refuse a layout or fill it; inserted text is not interpreted again."""
    source = Source(data)
    template, question = source.text(), source.text()
    layout = as_text(source.rest())
    try:
        check_layout(layout, ["template", "question"], "here")
    except CoevoError:
        return
    filled = fill(layout, template=template, question=question)
    plain = layout.replace("{{template}}", "").replace("{{question}}", "")
    assert len(filled) == len(plain) + len(template) + len(question)


def placed(data: bytes) -> None:
    """Place texts in any valid chat, without changing the input."""
    source = Source(data)
    prompt: Any = [
        {"role": source.pick(_ROLES), "content": _content(source)} for _ in range(source.below(4))
    ]
    if source.flag():
        prompt = source.text()
    before = copy.deepcopy(prompt)
    instruction, template = "I " + source.text(), "T " + source.text()
    manner: Literal["system", "prefix"] = source.pick(("system", "prefix"))
    try:
        shown = Placement(manner).place(prompt, instruction, template)
        question_text(prompt)
    except CoevoError:
        return
    assert prompt == before
    whole = f"{system_message(shown)}\n{question_text(shown)}"
    assert instruction in whole
    assert template in whole


def _content(source: Source) -> Any:
    if source.flag():
        return source.text()
    parts = [{"type": "text", "text": source.text()}, {"type": "image"}]
    return parts[source.below(2) : 2 - source.below(2)]


@cache
def _guard() -> LeakGuard:
    return LeakGuard(
        ["how many apples did the farmer from Utrecht sell on the market"], ["seventeen"], ngram=8
    )


_KEYS: Final = ("sk-0123456789", "a key of words", "пароль-пароль")
_ROLES: Final = ("user", "system", "assistant", "")
_ODD: Final = (
    "a\u200bb\ufeffe\u0301\u202ex\U000e0041y\U0001f468\u200d\U0001f469\ufe0f z\r\n\u2028".encode()
)
_PROSE: Final = b"Think of seventeen apples that the farmer from Utrecht did sell on the market. "

TARGETS = {
    "texts.border": Target(border, (_ODD, _ODD * 3, b"plain", b"\xed\xa0\x80 \xff"), 1.5),
    "texts.gates": Target(checked, (b"\0" * 3 + _PROSE, b"\1\0\4abcd\0" + _ODD, b"```"), 3.0),
    "texts.leaks": Target(leaks, (b"\0\x10" + _PROSE * 2, bytes(range(90)), _PROSE[::-1]), 0.1),
    "texts.redaction": Target(
        redacted, (b"\0\0https://me:secret@host/path?key=1#x", b"\1\4abcd://a?b"), 1.0
    ),
    "texts.fences": Target(fenced, (b"\0\0\0\0<failure_1></ins_1 ><b>", _PROSE), 2.0),
    "texts.layouts": Target(
        layouts, (b"\0\0\0\0{{template}}\n\n{{question}}", b"\0\0\0\0{{x}}{{{{template}}}}"), 6.0
    ),
    "texts.placement": Target(placed, (bytes(range(80)), b"\2" * 60, b"\1\0" * 40), 4.0),
}
