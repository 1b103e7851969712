"""An agent loop around any other: it runs under `x~` and hands back `x` to train on.

VeRL computes everything after a rollout (old and reference log-probs, values, the loss) on the
prompt ids that the agent loop returns. Exchanging them here is therefore the whole of context
distillation.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import hydra
from verl.experimental.agent_loop.agent_loop import (
    AgentLoopBase,
    AgentLoopOutput,
    _agent_loop_registry,
    register,
)

from prompt_coevo.adapters.verl.host import SamplingParams
from prompt_coevo.placement import Prompt
from prompt_coevo.types import Assignment

NAME: Final = "coevo"
COLUMN: Final = "coevo"
"""The column of a batch, and the extra field of a rollout, that are ours."""
STATUS: Final = "coevo_status"
"""The extra field in which an inner loop may report `tool_error` or `aborted`."""
ERROR: Final = "coevo_error"
"""The extra field that ends the run: VeRL only logs what an agent loop raises."""

# What builds prompt ids in an agent loop; before VeRL 0.9.1 the latter as a rule.
_TOKENIZERS = ("ct_build_initial_tokens", "apply_chat_template")


class LoopName(str):
    """This loop's name, as a type of this module: a worker that unpickles it has thereby imported the
    module, which registers the loop."""

    __slots__ = ()


def pack(
    inner: str, assignments: Sequence[Assignment], sampling: SamplingParams | None = None
) -> str:
    """A group's content of our column. Rollouts outside training, which keep the prompt that they ran
    under, bring `sampling`, which overrides the host's sampling parameters."""
    plans = [assignment.to_json() for assignment in assignments]
    return json.dumps({"inner": inner, "assignments": plans, "sampling": sampling})


@register(NAME)
class CoevoAgentLoop:
    """Runs the inner loop of one rollout. VeRL makes one object per rollout."""

    def __init__(self, **parts: object) -> None:
        self._parts = parts

    async def run(
        self, sampling_params: SamplingParams, **row: Any
    ) -> AgentLoopOutput | list[AgentLoopOutput]:
        """The inner loop's output, with the prompt ids to train on."""
        task = json.loads(row.pop(COLUMN))
        choices = task["assignments"]
        assignment = Assignment.from_json(choices[int(row["session_id"]) % len(choices)])
        question = list(row["raw_prompt"])
        rolled_out = assignment.rollout_prompt(question)
        inner = hydra.utils.instantiate(config=_agent_loop_registry[task["inner"]], **self._parts)
        exchange = None
        if assignment.distilled and task["sampling"] is None:
            exchange = _PromptExchange(inner, rolled_out, assignment.train_prompt(question))
        sampling = {**sampling_params, **(task["sampling"] or {})}
        output = await inner.run(sampling, **{**row, "raw_prompt": rolled_out})
        for one in output if isinstance(output, list) else [output]:
            one.extra_fields[COLUMN] = [assignment.round, assignment.group, assignment.member]
            if exchange is not None:
                exchange.apply(one)
        return output


class _PromptExchange:
    """Builds the ids of the prompt to train on just as the inner loop builds those of its own."""

    def __init__(self, inner: AgentLoopBase, rolled_out: Prompt, trained: Prompt) -> None:
        self._loop = type(inner).__name__
        self._rolled_out = rolled_out
        self._trained = trained
        self._ids: tuple[list[int], list[int]] | None = None
        for name in _TOKENIZERS:
            if hasattr(inner, name):
                setattr(inner, name, self._around(getattr(inner, name)))

    def apply(self, output: AgentLoopOutput) -> None:
        """Exchange the prompt ids of an output, or report that it cannot be done."""
        if self._ids is not None and list(output.prompt_ids) == self._ids[0]:
            output.prompt_ids = self._ids[1]
            return
        output.extra_fields[ERROR] = (
            f"the agent loop {self._loop} does not return the prompt ids that "
            f"{' or '.join(_TOKENIZERS)} built from raw_prompt, so they cannot be exchanged for those "
            "of the question; set coevo.context_distillation=False, or let it return them"
        )

    def _around(
        self, original: Callable[..., Awaitable[list[int]]]
    ) -> Callable[..., Awaitable[list[int]]]:
        async def build(messages: Prompt, *args: object, **kwargs: object) -> list[int]:
            ids = await original(messages, *args, **kwargs)
            if self._ids is None and list(messages) == list(self._rolled_out):
                if "mm_inputs_out" in kwargs:
                    kwargs["mm_inputs_out"] = {}
                trained = await original(self._trained, *args, **kwargs)
                self._ids = (list(ids), list(trained))
            return ids

        return build
