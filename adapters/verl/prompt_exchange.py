"""Context distillation for hosts whose agents make ids of their prompts themselves, one rollout each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from prompt_coevo.adapters.common.patching import wrap
from prompt_coevo.placement import Prompt


class PromptExchange:
    """Makes the ids of the prompt to train on just as an agent makes those of its own.

    `methods` are the names of what may make them, as far as the agent has it: asynchronous, with the
    messages as first argument. Keyword arguments in `filled` are dictionaries that such a method writes
    into; for the prompt to train on it gets empty ones.
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
        """What to train on in place of these ids; None if they do not begin with what a method made of the
        prompt. What comes behind, as in the later prompts of an agent with several, stays."""
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
            trained = await original(self._trained, *args, **kwargs)
            self._ids = (list(ids), list(trained))
        return ids
