from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prompt_coevo.adapters.openrlhf.placed_text import PlacedPrompt
from prompt_coevo.adapters.openrlhf.prompt_ids import PromptIds


class Tokenizer:
    """A token is a letter; notes what it was called with."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, texts: Sequence[str], **_: Any) -> dict[str, list[list[int]]]:
        assert all(type(text) is str for text in texts)
        self.calls.append(list(texts))
        return {"input_ids": [list(map(ord, text)) for text in texts]}


def test_texts_are_tokenized_once_and_together() -> None:
    tokenizer = Tokenizer()
    prompts = PromptIds(tokenizer)
    prompts.ahead(["a", PlacedPrompt.of("b", "a"), "a"])
    prompts.ahead(["a", "b"])
    assert prompts.of("b") == [98]
    assert prompts.of("a") is prompts.of("a")
    assert tokenizer.calls == [["a", "b"]]


def test_one_that_nobody_named_ahead() -> None:
    tokenizer = Tokenizer()
    prompts = PromptIds(tokenizer)
    prompts.ahead([])
    assert prompts.of("c") == [99]
    assert tokenizer.calls == [["c"]]


def test_what_was_cleared_is_tokenized_again() -> None:
    tokenizer = Tokenizer()
    prompts = PromptIds(tokenizer)
    assert prompts.of("c") == [99]
    prompts.clear()
    assert prompts.of("c") == [99]
    assert len(tokenizer.calls) == 2
