"""The dispatcher between the trainer and its agent loop manager: it plans and places outgoing prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
from omegaconf import DictConfig
from ray.exceptions import RayError
from tensordict import TensorDict
from verl.trainer.ppo.v1 import AgentLoopManagerTQ
from verl.utils import tensordict_utils as tu

from prompt_coevo.adapters.common.evaluation import evaluation_assignment
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.common.rows import Row
from prompt_coevo.adapters.verl.distill import COLUMN, NAME, Plan
from prompt_coevo.adapters.verl.in_flight import InFlight
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment, RolloutRequest, Sampling
from prompt_coevo.visible import in_a_line

_Task: TypeAlias = tuple[Sequence[Assignment], Mapping[str, float] | None]


class Dispatcher:
    """A proxy for the agent loop manager. `rollout` is VeRL's section of that name; `keeps_prompts` records
    the prompts that distilled rollouts ran under."""

    def __init__(
        self,
        manager: AgentLoopManagerTQ,
        engine: Coevolution,
        questions: QuestionIndex,
        rollout: DictConfig,
        *,
        keeps_prompts: bool = False,
    ) -> None:
        self._manager = manager
        self._rollout = rollout
        self._keeps_prompts = keeps_prompts
        self.engine = engine
        self.questions = questions
        self.under_way = InFlight(engine, questions, rollout.n)
        """The training groups in flight, by uid."""

    def __getattr__(self, name: str) -> object:
        return getattr(self._manager, name)

    def generate_sequences(self, batch: TensorDict) -> None:
        """Dispatch a batch of the trainer: training questions, or validation."""
        if "validate" not in batch or not bool(batch["validate"]):
            groups = self.under_way.plan(_column(batch, "uid"), _rows(batch))
            self._place(batch, [(group, None) for group in groups])
        elif (best := evaluation_assignment(self.engine)) is not None:
            self._place(batch, [([best], {})] * len(batch))
        self._dispatch(batch)

    def send(self, batch: TensorDict, requests: Sequence[RolloutRequest]) -> None:
        """Dispatch rows outside training, one per request."""
        self._place(batch, [([one.assignment], self._sampling(one.sampling)) for one in requests])
        self._dispatch(batch)

    def _dispatch(self, batch: TensorDict) -> None:
        try:
            self._manager.generate_sequences(batch)
        except RayError as error:  # what a worker cannot unpickle, Ray reports in many lines
            if "prompt_coevo" not in str(error):
                raise
            told = [line for line in str(error).split("\n") if line.strip()][-1]
            raise HostError(
                f"an agent loop worker cannot read what +coevo sends ({in_a_line(told, 300)}); install "
                "the same prompt-coevo on all nodes"
            ) from error

    def _sampling(self, sampling: Sampling) -> dict[str, float]:
        """Return the sampling parameters that replace VeRL's validation parameters."""
        if sampling.temperature == 0:
            return {"temperature": 0, "top_p": 1.0, "top_k": -1}
        host = self._rollout
        temperature = host.temperature if sampling.temperature is None else sampling.temperature
        return {"temperature": temperature, "top_p": host.top_p, "top_k": host.top_k}

    def _place(self, batch: TensorDict, tasks: Sequence[_Task]) -> None:
        loops = [self._rollout.agent.default_agent_loop] * len(batch)
        if "agent_name" in batch:
            loops = _column(batch, "agent_name")
        keeps = self._keeps_prompts
        plans = [
            Plan(loop, *task, keeps_prompts=keeps) for loop, task in zip(loops, tasks, strict=True)
        ]
        tu.assign_non_tensor_stack(batch, COLUMN, plans)
        tu.assign_non_tensor_stack(batch, "agent_name", [NAME] * len(batch))


def _rows(batch: TensorDict) -> list[Row]:
    """Return the rows of a batch as the dataset gave them, without the tensors."""
    columns = {
        name: _column(batch, name)
        for name in batch.keys()  # noqa: SIM118 (iterating over a TensorDict goes over its rows)
        if not isinstance(batch.get(name), torch.Tensor)
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _column(batch: TensorDict, name: str) -> list[Any]:
    """Return one value per row, whether the column is stacked or holds one value for all rows."""
    stored = batch.get(name)
    return [stored[number].data for number in range(len(batch))]
