"""A world without a trainer: questions, a rule-based policy, and a reflection model that helps it."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

from prompt_coevo.types import (
    Assignment,
    Question,
    Rollout,
    RolloutRequest,
    RolloutStatus,
)

Verdict: TypeAlias = tuple[float, RolloutStatus]
Judge: TypeAlias = Callable[[Assignment], Verdict]
Reply: TypeAlias = Callable[[str], str]
Request: TypeAlias = tuple[str, str, str, float | None]
"""Question, instruction, template and temperature of a policy rollout; "" for no text."""

FAMILIES: Final = 5
"""Questions n and n + FAMILIES have the same key."""

_ODD_IDS: Final = {20: "Ω / 20", 21: "21", 22: "a question", 23: "q23\n"}


def _question(number: int) -> Question:
    text = f"what is {number}?"
    prompt = [{"role": "user", "content": text}] if number % 2 else text
    return Question(_ODD_IDS.get(number, f"q{number}"), prompt, f"answer {number}")


QUESTIONS: Final = {question.id: question for question in map(_question, range(24))}
"""Questions as texts and as chats, some with odd ids."""

_NUMBERS: Final = {question_id: number for number, question_id in enumerate(QUESTIONS)}


def digest(*parts: object) -> int:
    """Hash the arguments to a number that is the same in every process."""
    text = "\0".join(map(str, parts)).encode("utf-8", "replace")
    return int.from_bytes(hashlib.sha256(text).digest()[:6], "big")


def texts_of(assignment: Assignment) -> tuple[str, str]:
    """Return the texts of instruction and template; "" for none."""
    return assignment.instruction_text or "", assignment.template_text or ""


def rule(assignment: Assignment) -> Verdict:
    """Judge an assignment. A quarter of the questions is easy; "k3" in instruction or template solves
    question 3.

    All other rewards are 0, 1/16 or 1/8, by question and texts. Their sums are exact.
    """
    number, texts = _NUMBERS[assignment.question_id], texts_of(assignment)
    if number % 4 == 3 or f"k{number % FAMILIES}" in " ".join(texts).split():
        return 1.0, "ok"
    return digest(number, *texts) % 3 / 16, "ok"


def rolled_out(assignment: Assignment, judge: Judge) -> Rollout:
    """Return the policy's rollout under an assignment."""
    reward, status = judge(assignment)
    texts = " ".join(filter(None, texts_of(assignment)))
    completion = f"{_NUMBERS[assignment.question_id]} under {texts!r}, I think"
    return Rollout(assignment, completion, reward, status)


class ScriptedPolicy:
    """A `prompt_coevo.policy.Policy` that records its requests, also those outside `open`."""

    def __init__(self, judge: Judge = rule) -> None:
        self.asked: list[Request] = []
        self.outside: list[str] = []
        """Requests made outside the hooks that get a policy, or on another thread."""
        self._judge = judge
        self._thread: int | None = None

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        if threading.get_ident() != self._thread:
            self.outside.append(f"{len(requests)} rollouts")
        self.asked += [
            (one.assignment.question_id, *texts_of(one.assignment), one.sampling.temperature)
            for one in requests
        ]
        return [rolled_out(one.assignment, self._judge) for one in requests]

    def question(self, question_id: str) -> Question:
        return QUESTIONS[question_id]

    def question_ids(self) -> list[str]:
        return list(QUESTIONS)

    @contextmanager
    def open(self) -> Iterator[ScriptedPolicy]:
        """Allow requests inside the context, from the thread that opened it."""
        self._thread = threading.get_ident()
        try:
            yield self
        finally:
            self._thread = None


def helpful_reply(prompt: str) -> str:
    """Answer the built-in proposers like a good reflection model: with the keys of the shown questions."""
    shown = re.findall(r"what is (\d+)\?", prompt) or [digest(prompt, place) for place in range(9)]
    keys = list(dict.fromkeys(f"k{int(number) % FAMILIES}" for number in shown))
    if "<current_template>" in prompt:
        return f"<template>Think of {' '.join(keys[:2])} now.</template>"
    parents = re.findall(r"<ins_\d+>\n(.*?)\n</ins_\d+>", prompt, re.DOTALL)
    parent = str(parents[-1]) if parents else "Think."
    count = int((re.findall(r"[Ww]rite (\d+) ", prompt) or ["1"])[0])
    wordings = [*keys, *(f"wording {digest(prompt) % 97 + place}" for place in range(count))]
    return "\n".join(
        f"<ins_{place}>{parent} {wording}</ins_{place}>"
        for place, wording in enumerate(wordings[:count], 1)
    )
