"""A search agent as an agent of OpenRLHF, with or without --coevo flags.

    # search_agent.py, named by --train.agent_func_path
    from prompt_coevo.adapters.openrlhf.search_agent import search_agent

    AgentExecutor = search_agent(url="http://127.0.0.1:8000")

The label has the gold answers: a text, a list of texts, or either as JSON.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from openrlhf.utils.agent import AgentExecutorBase

from prompt_coevo.adapters.openrlhf.host import TOOL_ERROR
from prompt_coevo.retrieval.agent.reward import score
from prompt_coevo.retrieval.agent.rollout import SearchRollout
from prompt_coevo.retrieval.agent.settings import SearchAgentSettings, tool_of
from prompt_coevo.retrieval.agent.tags import STOP_STRINGS
from prompt_coevo.tokens import encode

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Golds: TypeAlias = str | Iterable[object]


def search_agent(**settings: object) -> type[AgentExecutorBase]:
    """A class for OpenRLHF; the settings are those of `SearchAgentSettings`. Raises SettingsError."""
    checked = SearchAgentSettings(**settings)

    class SearchAgentExecutor(AgentExecutorBase):
        async def execute(
            self,
            prompt: str,
            label: Golds,
            sampling_params: Any,
            max_length: int,
            hf_tokenizer: PreTrainedTokenizerBase,
            llm_engine: Any,
            images: object = None,
        ) -> dict[str, object]:
            ids = encode(hf_tokenizer, prompt)
            rollout = SearchRollout(ids, hf_tokenizer, checked, max_length - len(ids))
            await _play(rollout, checked, sampling_params, llm_engine)
            reward = score(rollout.episode, _golds(label), checked.metric)
            return {"prompt": prompt, "label": label, **_response(rollout, reward)}

    return SearchAgentExecutor


async def _play(
    rollout: SearchRollout, settings: SearchAgentSettings, sampling_params: Any, llm_engine: Any
) -> None:
    tool = tool_of(settings)
    sampling = copy.deepcopy(sampling_params)
    sampling.stop, sampling.include_stop_str_in_output = list(STOP_STRINGS), True
    while not rollout.over:
        sampling.max_tokens = rollout.turn_tokens
        output = (await llm_engine.generate(rollout.trajectory.ids, sampling)).outputs[0]
        ids = list(output.token_ids)
        log_probs = None
        if output.logprobs is not None:
            log_probs = [at[token].logprob for token, at in zip(ids, output.logprobs, strict=True)]
        query = rollout.sampled(ids, log_probs)
        if query is not None:
            rollout.observed(await tool.asearch(query))


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


def _golds(label: Golds) -> str | list[str]:
    if not isinstance(label, str):
        return [str(one) for one in label]
    try:
        found = json.loads(label)
    except json.JSONDecodeError:
        return label
    return [str(one) for one in found] if isinstance(found, list) else label
