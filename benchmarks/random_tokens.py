"""An agent loop of VeRL's without a model, for `data_plane.py`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput, register

LOOP: Final = "random_tokens"


@register(LOOP)
class RandomTokens:
    """Answers with as many tokens as it is told, and with the reward that the row names."""

    def __init__(self, **parts: Any) -> None:
        self._vocabulary = len(parts["tokenizer"])

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        tokens = row["tokens"]
        rng = np.random.default_rng([row["number"], row["session_id"]])
        ids = rng.integers(5, self._vocabulary, tokens).tolist()
        return AgentLoopOutput(
            prompt_ids=[5] * 64,
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
