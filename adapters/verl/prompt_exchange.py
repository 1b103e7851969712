"""Context distillation for trainers whose agents tokenize prompts themselves, one agent per rollout."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from prompt_coevo.adapters.common.patching import wrap
from prompt_coevo.placement import Prompt


class PromptExchange:
    """Tokenizes the prompt to train on exactly as the agent tokenizes its own.

    `methods` names the agent's methods that may do so; names that it lacks are skipped. They are async and
    take the messages as first argument. Keyword arguments in `filled` are dictionaries that such a method
    writes into; for the prompt to train on it gets empty ones. If both prompts are one object, nothing is
    tokenized twice.
    """

    def __init__(
        self,
        agent: object,
        methods: Sequence[str],
        rolled_out: Prompt,
        trained: Prompt,
        *,
        filled: Collection[str] = (),
    ) -> None:
        self._rolled_out = rolled_out
        self._trained = trained
        self._filled = filled
        self._ids: tuple[list[int], list[int]] | None = None
        for name in methods:
            if hasattr(agent, name):
                wrap(agent, name, self._around)

    def trained_ids(self, prompt_ids: Sequence[int]) -> list[int] | None:
        """Return the ids to train on in place of these, or None if they do not begin with the ids that a
        method made of the prompt. Ids after it stay, as in the later prompts of a multi-turn agent."""
        if self._ids is None:
            return None
        rolled_out, trained = self._ids
        length = len(rolled_out)
        if list(prompt_ids[:length]) != rolled_out:
            return None
        return [*trained, *prompt_ids[length:]]

    async def _around(
        self,
        original: Callable[..., Awaitable[list[int]]],
        /,
        messages: Prompt,
        *args: object,
        **kwargs: object,
    ) -> list[int]:
        ids = await original(messages, *args, **kwargs)
        if self._ids is None and list(messages) == list(self._rolled_out):
            kwargs.update({name: {} for name in self._filled if name in kwargs})
            trained = ids
            if self._trained is not self._rolled_out:
                trained = await original(self._trained, *args, **kwargs)
            self._ids = (list(ids), list(trained))
        return ids
