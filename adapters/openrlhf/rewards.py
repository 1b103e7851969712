"""A reward is that of an answer to the question, not to the prompt that it was sampled with.

OpenRLHF asks for it in the vLLM actor, with the prompt that this was sent and the tokens that it sampled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import openrlhf.trainer.ray.vllm_engine as engine
from openrlhf.utils.agent import SingleTurnAgentExecutor

from prompt_coevo.adapters.openrlhf.host import Label, PlacedPrompt, class_of
from prompt_coevo.doors.patching import wrap
from prompt_coevo.errors import HostError

_Fetch: TypeAlias = Callable[[list[str], list[str], Sequence[Label]], Awaitable[list[Any]]]


class CoevoRolloutActor(class_of(engine.RolloutRayActor)):  # type: ignore[misc]
    """The vLLM actor. What an agent is rewarded for is the agent's own affair."""

    async def __init__(self, *args: object, **kwargs: object) -> None:  # type: ignore[misc]
        await super().__init__(*args, **kwargs)
        if isinstance(self.executor, SingleTurnAgentExecutor):
            for name in ("_fetch_rewards_via_func", "_fetch_rewards_via_http"):
                wrap(self.executor, name, _of_the_questions)


def _of_the_questions(
    fetch: _Fetch, queries: list[str], prompts: list[str], labels: Sequence[Label]
) -> Awaitable[list[Any]]:
    """The rewards, as if the responses had been sampled with the questions' own prompts."""
    pairs = [_of_the_question(*pair) for pair in zip(queries, prompts, strict=True)]
    return fetch([query for query, _ in pairs], [prompt for _, prompt in pairs], labels)


def _of_the_question(query: str, prompt: str) -> tuple[str, str]:
    if not isinstance(prompt, PlacedPrompt):
        return query, prompt
    if not query.startswith(prompt.decoded):
        raise HostError(
            "a response does not begin with the prompt that it was asked for, so its reward cannot be "
            "that of the question; raise --data.max_len"
        )
    return prompt.question_decoded + query[len(prompt.decoded) :], prompt.question
