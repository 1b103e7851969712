"""VeRL's agent loop for `ghost`: made-up tokens instead of the rollout server's."""

from __future__ import annotations

from typing import Any

from verl.experimental.agent_loop.agent_loop import (
    AgentLoopBase,
    AgentLoopMetrics,
    AgentLoopOutput,
)

from prompt_coevo.smoke.ghost import completion, score


class GhostLoop(AgentLoopBase):  # type: ignore[misc]
    """Answers a question by the next of its completions, and rewards it."""

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        messages = list(row["raw_prompt"])
        ids = completion(messages[-1]["content"], self.tokenizer.eos_token_id)
        return AgentLoopOutput(
            prompt_ids=await self.ct_build_initial_tokens(messages),
            response_ids=ids,
            response_mask=[1] * len(ids),
            reward_score=score(ids),
            num_turns=2,
            metrics=AgentLoopMetrics(),
            extra_fields={
                "turn_scores": [],
                "tool_rewards": [],
                "min_global_steps": row.get("global_steps", 0),
                "max_global_steps": row.get("global_steps", 0),
                "reward_extra_info": {},
            },
        )
