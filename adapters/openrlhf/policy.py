"""The current policy, for rollouts outside the training batch."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ray
import torch
from openrlhf.trainer.ray.vllm_engine import batch_vllm_engine_call

from prompt_coevo.adapters.openrlhf.host import TOOL_ERROR, Dispatch, Reference, Response
from prompt_coevo.adapters.openrlhf.questions import CoevoPromptDataset
from prompt_coevo.doors.policy import DoorPolicy, aborted, by_sampling
from prompt_coevo.doors.questions import QuestionIndex
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.markers import PROJECT
from prompt_coevo.types import Assignment, Rollout, RolloutRequest

if TYPE_CHECKING:
    from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

logger = logging.getLogger(PROJECT)


class OpenRLHFPolicy(DoorPolicy):
    """`prompt_coevo.policy.Policy` over the vLLM engines, between two generations.

    The weights were broadcast to them already; with the asynchronous trainer the generator holds the
    lock that keeps a broadcast out.
    """

    def __init__(
        self,
        host: SamplesGenerator,
        dataset: CoevoPromptDataset,
        questions: QuestionIndex,
        engine: Coevolution,
        dispatch: Dispatch,
    ) -> None:
        super().__init__(questions, lambda: engine.policy_version)
        self._host = host
        self._dataset = dataset
        self._dispatch = dispatch
        self.asleep: bool = host.args.vllm.enable_sleep
        """Whether the engines have to be woken."""
        self.generate_kwargs: Mapping[str, Any] = {}
        """What the host trains with: temperature, lengths and so on."""

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        """One scored completion per request, by the current weights."""
        rollouts: list[Rollout] = []
        for sampling, same in by_sampling(requests):
            assignments = [request.assignment for request in same]
            responses = self._sample(assignments, sampling.temperature)
            rollouts += map(self.scored, assignments, responses)
        return rollouts

    def scored(self, assignment: Assignment, response: Response | None) -> Rollout:
        """A response by the current weights as a rollout of the engine; None for one that failed."""
        version = self._version()
        if response is None:
            return aborted(assignment, version)
        tokens, ranges = response["observation_tokens"], response["action_ranges"]
        start = ranges[0][0] if ranges else len(tokens)
        text = self._dataset.tokenizer.decode(tokens[start:], skip_special_tokens=True)
        given = response.get("reward")
        # A number, a tensor, or, from a reward server, a list.
        reward = math.nan if given is None else float(torch.as_tensor(given).flatten()[0])
        failed = float((response.get("extra_logs") or {}).get(TOOL_ERROR, 0.0)) > 0
        return Rollout.scored(assignment, text, reward, version, "tool_error" if failed else None)

    def _sample(
        self, assignments: Sequence[Assignment], temperature: float | None
    ) -> list[Response | None]:
        """One response for each, None for one that failed."""
        prompts, labels = [], []
        for one in assignments:
            row = self._questions.row(one.question_id)
            prompts.append(self._dataset.place(one, row))
            labels.append(self._dataset.label(row))
        kwargs = {**self.generate_kwargs, "n_samples_per_prompt": 1}
        if temperature is not None:
            kwargs["temperature"] = temperature
        if self.asleep:
            batch_vllm_engine_call(self._host.vllm_engines, "wake_up")
        try:
            return [_result(one) for one in self._dispatch(prompts, labels, **kwargs)]
        finally:
            if self.asleep:
                batch_vllm_engine_call(self._host.vllm_engines, "sleep")


def _result(reference: Reference) -> Response | None:
    try:
        response: Response = ray.get(reference)[0]
    except ray.exceptions.RayTaskError as error:
        logger.warning("a rollout outside training failed: %s", error.cause)
        return None
    return response
