"""A search agent as an agent loop of VeRL, with or without +coevo.

    # search.yaml, named by actor_rollout_ref.rollout.agent.agent_loop_config_path
    - name: search_agent
      _target_: prompt_coevo.adapters.verl.search_agent.SearchAgentLoop
      url: http://127.0.0.1:8000

and `actor_rollout_ref.rollout.agent.default_agent_loop=search_agent`. The loop computes the reward itself,
from the policy's own answer, so VeRL calls no reward function.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
from verl.utils.profiler import simple_timer

from prompt_coevo.adapters.common.rows import Row
from prompt_coevo.adapters.verl.distill import STATUS
from prompt_coevo.retrieval.agent.rollout import SearchRollout
from prompt_coevo.retrieval.agent.scoring import golds_of, score
from prompt_coevo.retrieval.agent.settings import SearchAgentSettings, tool_of
from prompt_coevo.retrieval.agent.tags import STOP_STRINGS

_FIRST_WEIGHTS: Final = "min_global_steps"


class SearchAgentLoop(AgentLoopBase):
    """An agent loop with the fields of `SearchAgentSettings` as arguments. Raises SettingsError."""

    def __init__(self, *parts: object, **arguments: object) -> None:
        names = arguments.keys() & SearchAgentSettings.model_fields.keys()
        own = {name: arguments.pop(name) for name in names}
        super().__init__(*parts, **arguments)
        self._settings = SearchAgentSettings(**own)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Run one episode."""
        # Before VeRL 0.9.1 only `apply_chat_template` existed.
        build = getattr(self, "ct_build_initial_tokens", None) or self.apply_chat_template
        prompt_ids = await build(list(row["raw_prompt"]))
        room = self.rollout_config.response_length
        rollout = SearchRollout(prompt_ids, self.tokenizer, self._settings, room)
        tool = tool_of(self._settings)
        name = uuid4().hex  # one for all turns, so that the prefix cache can serve them
        sampling = dict(sampling_params)
        # SGLang cannot stop at a string, because VeRL gives it no tokenizer: there a turn is sampled to
        # its end and then cut.
        if self.rollout_config.name == "vllm":
            sampling |= {"stop": list(STOP_STRINGS), "include_stop_str_in_output": True}
        extra: dict[str, Any] = {}
        seconds = {"generate_sequences": 0.0, "tool_calls": 0.0}
        while not rollout.over:
            with simple_timer("generate_sequences", seconds):
                output = await self.server_manager.generate(
                    request_id=name,
                    prompt_ids=rollout.trajectory.ids,
                    sampling_params={**sampling, "max_tokens": rollout.turn_tokens},
                )
            # The weights that sampled: those the first turn began with, and those the last ended with.
            first = extra.get(_FIRST_WEIGHTS, output.extra_fields.get(_FIRST_WEIGHTS))
            extra = {**output.extra_fields, _FIRST_WEIGHTS: first}
            query = rollout.sampled(output.token_ids, output.log_probs or None)
            if query is not None:
                with simple_timer("tool_calls", seconds):
                    found = await tool.asearch(query)
                rollout.observed(found)
        return self._output(rollout, row, extra, seconds)

    def _output(
        self, rollout: SearchRollout, row: Row, extra: dict[str, Any], seconds: dict[str, float]
    ) -> AgentLoopOutput:
        trajectory, episode = rollout.trajectory, rollout.episode
        truth = (row.get("reward_model") or {}).get("ground_truth")
        golds = golds_of(truth, "reward_model.ground_truth")
        return AgentLoopOutput(
            prompt_ids=trajectory.prompt_ids,
            response_ids=trajectory.completion_ids,
            response_mask=trajectory.mask,
            response_logprobs=trajectory.log_probs or None,
            reward_score=score(episode, golds, self._settings.metric),
            num_turns=2 * episode.turns,
            metrics=seconds,
            extra_fields={
                **extra,
                STATUS: rollout.status,
                "searches": episode.searches,
                "turn_scores": [],
                "tool_rewards": [],
            },
        )
