"""Rollouts by the current policy outside the training batch."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import ray
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from openrlhf.trainer.ray.vllm_engine import batch_vllm_engine_call

from prompt_coevo.adapters.common.policy import (
    AdapterPolicy,
    aborted,
    not_all_aborted,
    sampled_alike,
)
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.common.success import Success
from prompt_coevo.adapters.openrlhf.contract import ADVICE
from prompt_coevo.adapters.openrlhf.host import TOOL_ERROR, Dispatch, Reference, Response
from prompt_coevo.adapters.openrlhf.late_texts import begins
from prompt_coevo.adapters.openrlhf.questions import CoevoPromptDataset
from prompt_coevo.adapters.openrlhf.weights import Weights
from prompt_coevo.errors import HostError
from prompt_coevo.markers import PROJECT
from prompt_coevo.settings.success import SuccessSettings
from prompt_coevo.types import Assignment, LateText, Rollout, RolloutRequest, Sampling

logger = logging.getLogger(PROJECT)

Sent: TypeAlias = tuple[Assignment, Reference]
"""An assignment, and the reference to its future response."""


class OpenRLHFPolicy(AdapterPolicy):
    """`prompt_coevo.policy.Policy` on the vLLM engines, between two generations.

    The engines already have the current weights; `weights` keeps updates out while a batch is sampled.
    """

    def __init__(
        self,
        host: SamplesGenerator,
        dataset: CoevoPromptDataset,
        questions: QuestionIndex,
        weights: Weights,
        dispatch: Dispatch,
        success: SuccessSettings,
    ) -> None:
        super().__init__(questions)
        self.weights = weights
        self._success = Success(success, "extra_logs")
        self._host = host
        self._dataset = dataset
        self._dispatch = dispatch
        self.asleep: bool = host.args.vllm.enable_sleep
        """True if the engines have to be woken."""
        self.generate_kwargs: Mapping[str, object] = {}
        """The trainer's generation arguments: temperature, lengths and so on."""

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        """Return one scored completion per request, sampled by the current weights.

        A rollout that failed, or has no reward because OpenRLHF only logged what the reward raised, counts
        as aborted. Raises RolloutsFailed if all are aborted, and HostError, see `while_engines_live`.
        """
        with while_engines_live(), self.weights.batch(len(requests)):
            if self.asleep:
                batch_vllm_engine_call(self._host.vllm_engines, "wake_up")
                self.asleep = False
            return not_all_aborted(self._collected(sampled_alike(requests, self._sent)))

    @contextmanager
    def kept_awake(self) -> Iterator[None]:
        """Leave engines that a rollout inside wakes awake until the end: to sleep and to wake again moves
        all weights, and a search asks for many batches."""
        slept = self.asleep
        try:
            yield
        finally:
            if slept and not self.asleep:
                with while_engines_live():
                    batch_vllm_engine_call(self._host.vllm_engines, "sleep")
                self.asleep = True

    def scored(
        self, assignment: Assignment, response: Response | None, late: LateText | None = None
    ) -> Rollout:
        """Convert a response by the current weights to a rollout; None stands for one that failed.

        The text is decoded now, unless `late` provides it.
        """
        version = self.weights.version()
        given = None if response is None else response.get("reward")
        if response is None or given is None:
            return aborted(assignment, version)
        text = late or self._decoded(response)
        extra, scores = response.get("extra_logs") or {}, response.get("scores")
        # `reward` is what OpenRLHF trains on; it filters groups by `scores` where an executor has them.
        own = given if scores is None else scores
        reward = self._success.of(own, {"reward": given, "scores": scores, **extra})
        failed = float(extra.get(TOOL_ERROR, 0.0)) > 0
        return Rollout.scored(
            assignment,
            text,
            reward,
            version,
            "tool_error" if failed else None,
        )

    def _collected(self, sent: Sequence[Sent]) -> list[Rollout]:
        """Wait for everything that was sent. Log what failed."""
        failed: list[str] = []
        rollouts = [self.scored(one, _result(reference, failed)) for one, reference in sent]
        if failed:
            logger.warning(
                "%d of %d rollouts outside training failed, the first with: %s",
                len(failed),
                len(sent),
                failed[0],
            )
        return rollouts

    def _decoded(self, response: Response) -> str:
        own = response["observation_tokens"][begins(response) :]
        return str(self._dataset.tokenizer.decode(own, skip_special_tokens=True))

    def _sent(self, requests: Sequence[RolloutRequest], sampling: Sampling) -> list[Sent]:
        assignments = [request.assignment for request in requests]
        rows = [self._questions.row(one.question_id) for one in assignments]
        prompts = list(map(self._dataset.place, assignments, rows))
        kwargs = {**self.generate_kwargs, "n_samples_per_prompt": 1}
        if sampling.temperature is not None:
            kwargs["temperature"] = sampling.temperature
        references = self._dispatch(prompts, list(map(self._dataset.label, rows)), **kwargs)
        return list(zip(assignments, references, strict=True))


@contextmanager
def while_engines_live() -> Iterator[None]:
    """Raise HostError if a vLLM engine dies inside: OpenRLHF would keep sending requests to it forever."""
    try:
        yield
    except ray.exceptions.RayActorError as error:
        if isinstance(error, ray.exceptions.RayTaskError):
            raise  # the engine lives: an agent's own Ray actor has died, and Ray passes that on
        raise HostError(
            "a vLLM engine died while rollouts were sampled (its log says why, or its node's log that it "
            "ran out of memory); start the command again with --ckpt.load_enable to resume from the last "
            "checkpoint"
        ) from error


def _result(reference: Reference, failed: list[str]) -> Response | None:
    """Return the one response of a rollout, or None if it failed; add the error to `failed`."""
    try:
        responses: list[Response] = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        failed.append(str(error.cause))
        return None
    if len(responses) != 1:
        raise HostError(
            f"OpenRLHF sampled {len(responses)} responses where one was asked for; {ADVICE}"
        )
    return responses[0]
