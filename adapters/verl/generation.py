"""Between the trainer and its agent loop manager: what goes out is planned and placed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from omegaconf import DictConfig
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from prompt_coevo.adapters.verl.distil import COLUMN, NAME, LoopName, pack
from prompt_coevo.adapters.verl.harvest import session
from prompt_coevo.adapters.verl.host import SamplingParams
from prompt_coevo.doors.evaluation import evaluation_assignment
from prompt_coevo.doors.questions import QuestionIndex, Row
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment

if TYPE_CHECKING:
    from verl.trainer.ppo.v1 import AgentLoopManagerTQ

_Task: TypeAlias = tuple[Sequence[Assignment], SamplingParams | None]


class Dispatcher:
    """Stands in for the agent loop manager, and remembers which groups are under way.

    `rollout` is VeRL's section of that name.
    """

    def __init__(
        self,
        manager: AgentLoopManagerTQ,
        engine: Coevolution,
        questions: QuestionIndex,
        rollout: DictConfig,
    ) -> None:
        self._manager = manager
        self._engine = engine
        self._questions = questions
        self._default_loop: str = rollout.agent.default_agent_loop
        self._group_size: int = rollout.n
        self._under_way: dict[str, list[Assignment]] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._manager, name)

    def generate_sequences(self, batch: TensorDict) -> None:
        """Dispatch a batch of the trainer's: training questions, or validation."""
        if "validate" not in batch or not bool(batch["validate"]):
            self._plan(batch)
        elif (best := evaluation_assignment(self._engine)) is not None:
            self._place(batch, [([best], {})] * len(batch))
        self._manager.generate_sequences(batch)

    def send(
        self, batch: TensorDict, requests: Sequence[tuple[Assignment, SamplingParams]]
    ) -> None:
        """Dispatch rows outside training, one assignment and its sampling parameters each."""
        self._place(batch, [([assignment], sampling) for assignment, sampling in requests])
        self._manager.generate_sequences(batch)

    def planned(self, keys: Iterable[str]) -> dict[str, list[Assignment]]:
        """By uid what the groups of some rows were planned as, in the order of the plans.

        Raises HostError for a group that never went through here.
        """
        uids = {session(key)[0] for key in keys}
        if strangers := uids - set(self._under_way):
            raise HostError(
                f"the group {min(strangers)} came back without having been dispatched by this trainer; "
                "its rollouts cannot be attributed"
            )
        return {uid: plan for uid, plan in self._under_way.items() if uid in uids}

    def distilled(self, keys: Sequence[str]) -> list[str]:
        """Those of some rows that were sampled under a template and are trained on without it."""
        planned = self.planned(keys)
        sessions = {key: session(key) for key in keys}
        return [key for key, (uid, member) in sessions.items() if planned[uid][member].distilled]

    def forget_all(self) -> None:
        """Nothing is under way any more."""
        self._under_way.clear()

    def _plan(self, batch: TensorDict) -> None:
        ids, size = self._questions.ids_of(_rows(batch)), self._group_size
        plan = self._engine.plan(ids, size)
        groups = [plan[start : start + size] for start in range(0, len(plan), size)]
        self._under_way.update(zip(_column(batch, "uid"), groups, strict=True))
        self._place(batch, [(group, None) for group in groups])

    def _place(self, batch: TensorDict, tasks: Sequence[_Task]) -> None:
        loops = [self._default_loop] * len(batch)
        if "agent_name" in batch:
            loops = _column(batch, "agent_name")
        packed = [pack(loop, *task) for loop, task in zip(loops, tasks, strict=True)]
        tu.assign_non_tensor_stack(batch, COLUMN, packed)
        tu.assign_non_tensor_stack(batch, "agent_name", [LoopName(NAME)] * len(batch))


def _rows(batch: TensorDict) -> list[Row]:
    """The rows of a batch as their dataset gave them, without the tensors."""
    columns = {
        name: _column(batch, name)
        for name in batch.keys()  # noqa: SIM118 (iterating over a TensorDict goes over its rows)
        if not isinstance(batch.get(name), torch.Tensor)
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _column(batch: TensorDict, name: str) -> list[Any]:
    """One value per row, whether the column is stacked or one value for all rows."""
    stored = batch.get(name)
    return [stored[number].data for number in range(len(batch))]
