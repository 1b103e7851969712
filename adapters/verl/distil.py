"""An agent loop around any other: it runs under `x~` and hands back `x` to train on.

VeRL computes everything after a rollout (old and reference log-probs, values, the loss) on the
prompt ids that the agent loop returns. Exchanging them here is therefore the whole of context
distillation.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import hydra
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, _agent_loop_registry, register

from prompt_coevo.doors.prompt_exchange import PromptExchange
from prompt_coevo.types import Assignment

NAME: Final = "coevo"
COLUMN: Final = "coevo"
"""The column of a batch, and the extra field of a rollout, that are ours."""
STATUS: Final = "coevo_status"
"""The extra field in which an inner loop may report `tool_error` or `aborted`."""
ERROR: Final = "coevo_error"
"""The extra field that ends the run: VeRL only logs what an agent loop raises."""

# What builds prompt ids in an agent loop; before VeRL 0.9.1 the latter as a rule.
_TOKENIZERS: Final = ("ct_build_initial_tokens", "apply_chat_template")


class LoopName(str):
    """This loop's name, as a type of this module: a worker that unpickles it has thereby imported the
    module, which registers the loop."""

    __slots__ = ()


def pack(
    inner: str, assignments: Sequence[Assignment], sampling: dict[str, Any] | None = None
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
        self, sampling_params: dict[str, Any], **row: Any
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
            trained = assignment.train_prompt(question)
            exchange = PromptExchange(
                inner, _TOKENIZERS, rolled_out, trained, filled=["mm_inputs_out"]
            )
        sampling = {**sampling_params, **(task["sampling"] or {})}
        output = await inner.run(sampling, **{**row, "raw_prompt": rolled_out})
        for one in output if isinstance(output, list) else [output]:
            one.extra_fields[COLUMN] = [assignment.round, assignment.group, assignment.member]
            if exchange is not None:
                _apply(exchange, one, type(inner).__name__)
        return output


def _apply(exchange: PromptExchange, output: AgentLoopOutput, loop: str) -> None:
    """Exchange the prompt ids of an output, or report that it cannot be done."""
    ids = exchange.trained_ids(output.prompt_ids)
    if ids is not None:
        output.prompt_ids = ids
        return
    output.extra_fields[ERROR] = (
        f"the agent loop {loop} does not return the prompt ids that {' or '.join(_TOKENIZERS)} built "
        "from raw_prompt, so they cannot be exchanged for those of the question; set "
        "coevo.context_distillation=False, or let it return them"
    )
