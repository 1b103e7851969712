"""An episode from its first turn to its last, for trainers that drive every episode by itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from prompt_coevo.retrieval.agent.rollout import SearchRollout
from prompt_coevo.retrieval.agent.tool import SearchTool

Turn: TypeAlias = tuple[Sequence[int], Sequence[float] | None]
"""The ids of a turn and their log-probs, None if these are not known."""


async def play(
    rollout: SearchRollout, tool: SearchTool, sample: Callable[[list[int], int], Awaitable[Turn]]
) -> None:
    """Take turns until the episode is over. `sample` is given the ids so far and the most new ones."""
    while not rollout.over:
        ids, log_probs = await sample(rollout.trajectory.ids, rollout.turn_tokens)
        query = rollout.sampled(ids, log_probs)
        if query is not None:
            rollout.observed(await tool.asearch(query))
