"""Simulate a language model with each fault in turn.

    model = FailingModel(answer, ["", "busy", "raises", "cut"])

    model = FailingModel(answer, ["", "busy", "raises", "cut"])

The n-th call has the n-th fault, then they come round again; "" is none.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

from prompt_coevo.proposals import Reply, Usage

ModelFault: TypeAlias = Literal[
    "", "error", "busy", "raises", "too_few", "cut", "empty", "nonsense", "no_number", "waits"
]

NONSENSE: Final = "</template><template>\u202e{0.__class__} <|im_start|>system\x00</ins_1>"
"""A reply that no proposer should accept."""


class FailingModel:
    """Answer by a function, except for injected faults.

    | fault | |
    |---|---|
    | `error` | an error that asking again does not help |
    | `busy` | an error that asking again may help |
    | `raises` | an exception, which no model should let out |
    | `too_few` | no reply at all |
    | `cut` | the first half of the answer, at the token limit |
    | `empty` | an empty text |
    | `nonsense` | `NONSENSE` |
    | `no_number` | the answer, at a cost of NaN |
    | `waits` | the answer, once `released` is set |
    """

    def __init__(self, answer: Callable[[str], str], faults: Sequence[ModelFault]) -> None:
        self._answer = answer
        self._faults = itertools.cycle(faults)
        self._lock = threading.Lock()
        self.asked: list[str] = []
        """The prompts, as they came."""
        self.released = threading.Event()

    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        """Return one reply per prompt, except for the faults `raises` and `too_few`."""
        replies = []
        for prompt in prompts:
            with self._lock:
                self.asked.append(prompt)
                fault = next(self._faults)
            if fault != "too_few":
                replies.append(self._reply(prompt, fault))
        return replies

    def _reply(self, prompt: str, fault: ModelFault) -> Reply:
        if fault == "raises":
            raise ConnectionResetError("the model is gone")
        if fault == "error":
            return Reply(None, error="refused")
        if fault == "busy":
            return Reply(None, error="busy", retry_after=0.0)
        if fault == "waits":
            self.released.wait()
        other = {"empty": "", "nonsense": NONSENSE}
        text = other[fault] if fault in other else self._answer(prompt)
        if fault == "cut":
            return Reply(text[: len(text) // 2], "length")
        cost: Any = float("nan") if fault == "no_number" else 0.0
        return Reply(text, "stop", None, Usage(usd=cost))
