"""A reward is that of an answer to the question, not to the prompt that it was sampled with.

OpenRLHF asks for it in the vLLM actor, with the prompt that this was sent and the tokens that it sampled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import openrlhf.trainer.ray.vllm_engine as engine
from openrlhf.utils.agent import SingleTurnAgentExecutor

from prompt_coevo.adapters.openrlhf.groups import Asked, Parts, numbered
from prompt_coevo.adapters.openrlhf.host import Response, class_of
from prompt_coevo.doors.patching import wrap
from prompt_coevo.doors.placed_text import on_the_question


class CoevoRolloutActor(class_of(engine.RolloutRayActor)):  # type: ignore[misc]
    """The vLLM actor. What an agent is rewarded for is the agent's own affair."""

    async def __init__(self, *args: object, **kwargs: object) -> None:  # type: ignore[misc]
        await super().__init__(*args, **kwargs)
        if isinstance(self.executor, SingleTurnAgentExecutor):
            for name in ("_fetch_rewards_via_func", "_fetch_rewards_via_http"):
                wrap(self.executor, name, _of_the_questions)

    async def generate_responses(
        self, prompt: str | Asked, **kwargs: object
    ) -> list[Response] | Parts:
        """The responses to a prompt, numbered if it says how. Raises HostError, see `numbered`."""
        if not isinstance(prompt, Asked):
            plain: list[Response] = await super().generate_responses(prompt=prompt, **kwargs)
            return plain
        responses = await super().generate_responses(prompt=prompt.prompt, **kwargs)
        return numbered(prompt, responses)


def _of_the_questions(
    fetch: Callable[..., Awaitable[list[Any]]], queries: list[str], prompts: list[str], labels: Any
) -> Awaitable[list[Any]]:
    """The rewards, as if the responses had been sampled with the questions' own prompts."""
    advice = "raise --data.max_len"
    pairs = [on_the_question(*pair, advice) for pair in zip(queries, prompts, strict=True)]
    return fetch([query for query, _ in pairs], [prompt for _, prompt in pairs], labels)
