"""Run VeRL's agent loop without a model, for `data_plane.py`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput, register

LOOP: Final = "random_tokens"


@register(LOOP)
class RandomTokens:
    """Answer with the requested number of tokens, and the reward in the row."""

    def __init__(self, **parts: Any) -> None:
        self._vocabulary = len(parts["tokenizer"])

    async def ct_build_initial_tokens(self, messages: Any) -> list[int]:
        return [5 + len(message["content"]) % 5 for message in messages for _ in range(64)]

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        tokens = row["tokens"]
        rng = np.random.default_rng([row["number"], row["session_id"]])
        ids = rng.integers(5, self._vocabulary, tokens).tolist()
        return AgentLoopOutput(
            prompt_ids=await self.ct_build_initial_tokens(row["raw_prompt"]),
            response_ids=ids,
            response_mask=[1] * tokens,
            response_logprobs=[-1.0] * tokens,
            reward_score=float(rng.random() < row["chance"]),
            metrics=AgentLoopMetrics(),
            extra_fields={
                "turn_scores": [],
                "tool_rewards": [],
                "min_global_steps": 1,
                "max_global_steps": 1,
                "reward_extra_info": {"acc": 0.0},
            },
        )
