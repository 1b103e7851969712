"""Reward a response as an answer to the question, not to the prompt that it was sampled with.

OpenRLHF asks for rewards in the vLLM actor, with the prompt sent to the actor and the tokens it sampled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, TypeVar

import openrlhf.trainer.ray.vllm_engine as engine
from openrlhf.utils.agent import SingleTurnAgentExecutor

from prompt_coevo.adapters.common.patching import wrap
from prompt_coevo.adapters.openrlhf.groups import Asked, numbered
from prompt_coevo.adapters.openrlhf.host import Response, class_of
from prompt_coevo.adapters.openrlhf.placed_text import on_the_question
from prompt_coevo.adapters.openrlhf.shared_tokenizer import SharedTokenizer, TokenizerCache
from prompt_coevo.tokens import encode

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

T = TypeVar("T")


class CoevoRolloutActor(class_of(engine.RolloutRayActor)):  # type: ignore[misc]
    """The vLLM actor. Rewards that an agent computes itself are left alone."""

    async def __init__(self, *args: object, **kwargs: object) -> None:  # type: ignore[misc]
        await super().__init__(*args, **kwargs)
        self._borrowed = TokenizerCache()
        self._tokenizer: PreTrainedTokenizerBase
        if isinstance(self.executor, SingleTurnAgentExecutor):
            for name in ("_fetch_rewards_via_func", "_fetch_rewards_via_http"):
                wrap(self.executor, name, self._of_the_questions)

    async def generate_responses(
        self,
        prompt: str | Asked,
        hf_tokenizer: SharedTokenizer | PreTrainedTokenizerBase,
        **kwargs: object,
    ) -> list[Response]:
        """Return the responses to a prompt, or to a group, numbered. Raises HostError, see `numbered`."""
        sample: Callable[..., Awaitable[list[Response]]] = super().generate_responses
        kwargs["hf_tokenizer"] = self._tokenizer = await self._borrowed.tokenizer(hf_tokenizer)
        if not isinstance(prompt, Asked):
            return await sample(prompt=prompt, **kwargs)
        parts = []
        for text, numbers in prompt.prompts.items():
            # A multi-turn executor writes into the parameters how much room its prompt leaves.
            own = {
                "num_samples": len(numbers),
                "sampling_params": deepcopy(kwargs["sampling_params"]),
            }
            parts.append(sample(prompt=text, **{**kwargs, **own}))
        return numbered(prompt, await asyncio.gather(*parts))

    def _of_the_questions(
        self,
        fetch: Callable[..., Awaitable[list[T]]],
        queries: list[str],
        prompts: list[str],
        labels: Sequence[object],
    ) -> Awaitable[list[T]]:
        """Fetch the rewards as if the responses had been sampled with the questions' own prompts."""
        pairs = [
            on_the_question(query, prompt, self._decoded, "raise --data.max_len")
            for query, prompt in zip(queries, prompts, strict=True)
        ]
        return fetch([query for query, _ in pairs], [prompt for _, prompt in pairs], labels)

    def _decoded(self, text: str) -> str:
        return str(self._tokenizer.decode(encode(self._tokenizer, text)))
