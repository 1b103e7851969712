"""A search agent for OpenRLHF, with or without --coevo flags.

    # search_agent.py, named by --train.agent_func_path
    from prompt_coevo.adapters.openrlhf.search_agent import search_agent

    AgentExecutor = search_agent(url="http://127.0.0.1:8000")

The label has the gold answers: a text, a list of texts, or either as JSON.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import torch
from openrlhf.utils.agent import AgentExecutorBase
from transformers import PreTrainedTokenizerBase

from prompt_coevo.adapters.openrlhf.host import TOOL_ERROR
from prompt_coevo.retrieval.agent.rollout import SearchRollout, Turn, play
from prompt_coevo.retrieval.agent.scoring import golds_of_label, score
from prompt_coevo.retrieval.agent.settings import SearchAgentSettings, tool_of
from prompt_coevo.retrieval.agent.tags import STOP_STRINGS
from prompt_coevo.tokens import encode

if TYPE_CHECKING:
    from openrlhf.trainer.ray.vllm_engine import RolloutRayActor
    from vllm import SamplingParams


def search_agent(**settings: object) -> type[AgentExecutorBase]:
    """Build an executor class for OpenRLHF from fields of `SearchAgentSettings`. Raises SettingsError."""
    checked = SearchAgentSettings(**settings)

    class SearchAgentExecutor(AgentExecutorBase):
        async def execute(
            self,
            prompt: str,
            label: str | Iterable[object],
            sampling_params: SamplingParams,
            max_length: int,
            hf_tokenizer: PreTrainedTokenizerBase,
            llm_engine: RolloutRayActor,
            images: object = None,
        ) -> dict[str, object]:
            ids = encode(hf_tokenizer, prompt)
            rollout = SearchRollout(ids, hf_tokenizer, checked, max_length - len(ids))
            sampling = copy.deepcopy(sampling_params)
            sampling.stop, sampling.include_stop_str_in_output = list(STOP_STRINGS), True
            await play(rollout, tool_of(checked), partial(_sample, llm_engine, sampling))
            reward = score(rollout.episode, golds_of_label(label), checked.metric)
            return {"prompt": prompt, "label": label, **_response(rollout, reward)}

    return SearchAgentExecutor


async def _sample(
    llm_engine: RolloutRayActor, sampling: SamplingParams, ids: list[int], most: int
) -> Turn:
    sampling.max_tokens = most
    output = (await llm_engine.generate(ids, sampling)).outputs[0]
    new = list(output.token_ids)
    if output.logprobs is None:
        return new, None
    return new, [at[token].logprob for token, at in zip(new, output.logprobs, strict=True)]


def _response(rollout: SearchRollout, reward: float) -> dict[str, object]:
    trajectory, episode = rollout.trajectory, rollout.episode
    start, log_probs = len(trajectory.prompt_ids), trajectory.log_probs
    return {
        "images": None,
        "mm_train_inputs": None,
        "reward": reward,
        "scores": reward,
        "observation_tokens": trajectory.ids,
        "action_ranges": [(start + first, start + last) for first, last in trajectory.own_ranges],
        "rollout_log_probs": log_probs and [0.0] * start + log_probs,
        "truncated": episode.ended == "length",
        "extra_logs": {
            "searches": torch.tensor(float(episode.searches)),
            TOOL_ERROR: torch.tensor(float(episode.outage)),
        },
    }
