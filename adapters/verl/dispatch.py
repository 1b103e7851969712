"""Between the trainer and its agent loop manager: what goes out is planned and placed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from prompt_coevo.adapters.verl.agent_loop import COLUMN, NAME, LoopName, pack
from prompt_coevo.doors.questions import QuestionIndex
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment


class Dispatcher:
    """Stands in for the agent loop manager, and remembers which groups are under way."""

    def __init__(
        self,
        manager: Any,
        engine: Coevolution,
        questions: QuestionIndex,
        default_loop: str,
        group_size: int,
    ) -> None:
        self._manager = manager
        self._engine = engine
        self._questions = questions
        self._default_loop = default_loop
        self._group_size = group_size
        self._under_way: dict[str, list[Assignment]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def generate_sequences(self, batch: TensorDict) -> None:
        """Dispatch a batch of the trainer's: training questions, or validation."""
        if "validate" in batch and bool(batch["validate"]):
            self._place_instruction(batch)
        else:
            self._plan(batch)
        self._manager.generate_sequences(batch)

    def send(
        self, batch: TensorDict, requests: Sequence[tuple[Assignment, dict[str, Any]]]
    ) -> None:
        """Dispatch rows outside training, one assignment and its sampling parameters each."""
        self._place(batch, [([assignment], sampling) for assignment, sampling in requests])
        self._manager.generate_sequences(batch)

    def groups(self, uids: Collection[str]) -> dict[str, list[Assignment]]:
        """What the rollouts of some groups under way were planned as, in the order of the plans.

        Raises HostError for a group that never went through here.
        """
        if strangers := set(uids) - set(self._under_way):
            raise HostError(
                f"the group {min(strangers)} came back without having been dispatched by this trainer; "
                "its rollouts cannot be attributed"
            )
        return {uid: plan for uid, plan in self._under_way.items() if uid in uids}

    def forget_all(self) -> None:
        """Nothing is under way any more."""
        self._under_way.clear()

    def _plan(self, batch: TensorDict) -> None:
        ids = self._questions.ids_of(_rows(batch))
        size = self._group_size
        plan = self._engine.plan(ids, size)
        groups = [plan[start : start + size] for start in range(0, len(plan), size)]
        self._under_way.update(zip(_column(batch, "uid"), groups, strict=True))
        self._place(batch, [(group, None) for group in groups])

    def _place_instruction(self, batch: TensorDict) -> None:
        instruction = self._engine.evaluation_instruction()
        if instruction is None:
            return
        placement = self._engine.settings.placement.build()
        assignment = Assignment("validation", instruction=instruction, placement=placement)
        self._place(batch, [([assignment], {})] * len(batch))

    def _place(
        self, batch: TensorDict, tasks: Sequence[tuple[Sequence[Assignment], dict[str, Any] | None]]
    ) -> None:
        loops = (
            _column(batch, "agent_name")
            if "agent_name" in batch
            else [self._default_loop] * len(batch)
        )
        packed = [
            pack(loop, assignments, sampling)
            for loop, (assignments, sampling) in zip(loops, tasks, strict=True)
        ]
        tu.assign_non_tensor_stack(batch, COLUMN, packed)
        tu.assign_non_tensor_stack(batch, "agent_name", [LoopName(NAME)] * len(batch))


def _rows(batch: TensorDict) -> list[dict[str, Any]]:
    """The rows of a batch as their dataset gave them, without the tensors."""
    columns = {
        name: _column(batch, name)
        for name in batch.keys()  # noqa: SIM118 (iterating over a TensorDict goes over its rows)
        if not isinstance(batch.get(name), torch.Tensor)
    }
    return [
        {name: column[number] for name, column in columns.items()} for number in range(len(batch))
    ]


def _column(batch: TensorDict, name: str) -> list[Any]:
    """One value per row, whether the column is stacked or one value for all rows."""
    stored = batch.get(name)
    return [stored[number].data for number in range(len(batch))]
