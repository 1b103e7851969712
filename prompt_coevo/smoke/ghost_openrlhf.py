"""OpenRLHF's agent for `ghost` (`--train.agent_func_path`): made-up tokens instead of vLLM's."""

from __future__ import annotations

from typing import Any

from openrlhf.utils.agent import AgentExecutorBase

from prompt_coevo.smoke.ghost import completion, score
from prompt_coevo.tokens import encode


class AgentExecutor(AgentExecutorBase):  # type: ignore[misc]
    """Answers a question by the next of its completions, and rewards it."""

    async def execute(
        self,
        prompt: str,
        label: str,
        sampling_params: Any,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: object,
        images: object = None,
    ) -> dict[str, Any]:
        start, ids = encode(hf_tokenizer, prompt), completion(prompt, hf_tokenizer.eos_token_id)
        reward = score(ids)
        return {
            "prompt": prompt,
            "label": label,
            "images": None,
            "mm_train_inputs": None,
            "reward": reward,
            "scores": reward,
            "observation_tokens": [*start, *ids],
            "action_ranges": [(len(start), len(start) + len(ids))],
            "rollout_log_probs": None
            if sampling_params.logprobs is None
            else [0.0] * (len(start) + len(ids)),
            "truncated": False,
            "extra_logs": {},
        }
