"""A plain function as a language model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from prompt_coevo.proposals import Reply
from prompt_coevo.redact import redact
from prompt_coevo.threads import map_in_threads


class FunctionModel:
    """A model that calls `function(prompt) -> reply text`, for up to `concurrency` prompts at once."""

    def __init__(self, function: Callable[[str], str], concurrency: int = 1) -> None:
        self._function = function
        self._concurrency = concurrency
        # Several threads may call `complete`, but the function may not be thread-safe.
        self._slots = threading.Semaphore(concurrency)

    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        """Return one reply per prompt; an exception or a non-text value becomes an error."""
        if self._concurrency == 1:
            return [self._ask(prompt) for prompt in prompts]
        return map_in_threads(self._ask, prompts, self._concurrency)

    def _ask(self, prompt: str) -> Reply:
        try:
            with self._slots:
                text = self._function(prompt)
        except Exception as error:
            return Reply(None, error=redact(f"{type(error).__name__}: {error}"))
        if not isinstance(text, str):
            return Reply(None, error=f"the function returned {type(text).__name__}, not a text")
        return Reply(text, finish_reason="stop")
