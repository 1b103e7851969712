"""An agent loop that wraps any other: it runs under `x~` and returns `x` to train on.

VeRL computes everything after a rollout (old and reference log-probs, values, the loss) on the
prompt ids that the agent loop returns. Exchanging them here is therefore all that context
distillation needs.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, TypedDict
from zlib import crc32

import hydra
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, _agent_loop_registry, register

from prompt_coevo import __version__
from prompt_coevo.adapters.common.placed import reached
from prompt_coevo.adapters.verl.prompt_exchange import PromptExchange
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment

NAME: Final = "coevo"
COLUMN: Final = "coevo"
"""Our column of a batch, and our extra field of a rollout."""
REWARD: Final = "coevo_reward"
"""The extra field with a rollout's reward, if it is known when the row is written."""
TRAINED: Final = "coevo_trained"
"""The extra field with the fingerprint of the prompt ids to train a distilled rollout on."""
ROLLED_OUT: Final = "coevo_rolled_out"
"""The extra field with the prompt ids that a distilled rollout ran under, 4 bytes each, if recorded."""
STATUS: Final = "coevo_status"
"""The extra field in which an inner loop may report `tool_error` or `aborted`."""
ERROR: Final = "coevo_error"
"""The extra field with an error that must end the run: VeRL only logs what an agent loop raises."""


class Extra(TypedDict, total=False):
    """The extra fields of a rollout that we read, by the names above. There are more."""

    min_global_steps: int
    reward_extra_info: Mapping[str, object]
    coevo: Sequence[int]
    coevo_reward: float
    coevo_trained: int
    coevo_rolled_out: bytes
    coevo_status: str
    coevo_error: str


_IGNORED: Final = (
    "the agent loop {} does not use the raw_prompt that it is given, so no instruction or template would "
    "ever reach the policy; let it build its prompt from raw_prompt"
)

# Methods that build prompt ids in an agent loop; before VeRL 0.9.1 usually the second.
_TOKENIZERS: Final = ("ct_build_initial_tokens", "apply_chat_template")


class Plan:
    """The assignments of a question's rollouts: a value of our column.

    It travels once, from the trainer to the worker that runs the rollouts; unpickling it imports this
    module, which registers the loop. VeRL copies every column of a question into each of its rows and
    passes it to the reward function too, so a used plan is pickled as an empty string.
    """

    def __init__(
        self,
        inner: str,
        assignments: Sequence[Assignment],
        sampling: Mapping[str, float] | None = None,
        keeps_prompts: bool = False,
    ) -> None:
        """Take the name `inner` of the loop that the row asked for. Rollouts outside training, which keep
        the prompt that they ran under, bring `sampling` to override the trainer's sampling parameters.
        `keeps_prompts` also records the prompts that distilled rollouts ran under."""
        self.inner = inner
        self.sampling = sampling
        self.keeps_prompts = keeps_prompts
        self._assignments = assignments
        self._is_used = False

    def use(self, session: int) -> Assignment:
        """Return the assignment of the rollout with this number and mark the plan as used."""
        self._is_used = True
        return self._assignments[session % len(self._assignments)]

    def __reduce__(self) -> tuple[object, ...]:
        if self._is_used:
            return str, ()
        parts = (self.inner, self._assignments, self.sampling, self.keeps_prompts)
        return _arrived, (__version__, *parts)


def _arrived(sent_by: str, *parts: Any) -> Plan:
    """Rebuild a plan in the process that runs it. Raises HostError if that has another package version."""
    if sent_by != __version__:
        raise HostError(
            f"an agent loop worker has prompt_coevo {__version__} and the trainer {sent_by}; install the "
            "same version on all nodes"
        )
    return Plan(*parts)


def fingerprint(ids: Sequence[int]) -> int:
    """Return a checksum, to compare prompt ids between an agent loop and the trainer."""
    return crc32(array("q", ids).tobytes())


@register(NAME)
class CoevoAgentLoop:
    """Runs the inner loop of one rollout. VeRL creates one object per rollout."""

    def __init__(self, **parts: Any) -> None:
        self._parts = parts

    async def run(
        self, sampling_params: dict[str, Any], **row: Any
    ) -> AgentLoopOutput | list[AgentLoopOutput]:
        """Run the inner loop and return its output with the prompt ids to train on."""
        plan: Plan = row.pop(COLUMN)
        assignment = plan.use(int(row["session_id"]))
        question = list(row["raw_prompt"])
        rolled_out = assignment.rollout_prompt(question)
        inner = hydra.utils.instantiate(config=_agent_loop_registry[plan.inner], **self._parts)
        is_exchanged = assignment.distilled and plan.sampling is None
        trained = assignment.train_prompt(question) if is_exchanged else rolled_out
        exchange = PromptExchange(inner, _TOKENIZERS, rolled_out, trained, filled=["mm_inputs_out"])
        sampling = {**sampling_params, **(plan.sampling or {})}
        output = await inner.run(sampling, **{**row, "raw_prompt": rolled_out})
        outputs = output if isinstance(output, list) else [output]
        has_reached = any(
            exchange.trained_ids(one.prompt_ids) is not None
            or reached(self._parts["tokenizer"], one.prompt_ids, assignment)
            for one in outputs
        )
        for one in outputs:
            one.extra_fields[COLUMN] = [assignment.round, assignment.group, assignment.member]
            if not has_reached:
                one.extra_fields[ERROR] = _IGNORED.format(type(inner).__name__)
            elif is_exchanged:
                if plan.keeps_prompts:
                    one.extra_fields[ROLLED_OUT] = array("i", one.prompt_ids).tobytes()
                _apply(exchange, one, type(inner).__name__)
        reported = [_with_reward(one) for one in outputs]
        return reported if isinstance(output, list) else reported[0]


def _apply(exchange: PromptExchange, output: AgentLoopOutput, loop: str) -> None:
    """Exchange the prompt ids of an output, or report that this is impossible."""
    ids = exchange.trained_ids(output.prompt_ids)
    if ids is not None:
        output.prompt_ids = ids
        output.extra_fields[TRAINED] = fingerprint(ids)
        return
    output.extra_fields[ERROR] = (
        f"the agent loop {loop} does not return the prompt ids that {' or '.join(_TOKENIZERS)} built "
        "from raw_prompt, so they cannot be exchanged for those of the question; set "
        "coevo.context_distillation=False, or let it return them"
    )


def _with_reward(output: AgentLoopOutput) -> AgentLoopOutput:
    """Return the same output, which adds its reward to its extra fields when VeRL writes the row.

    VeRL stores a reward as a tensor as long as the response, at the last token; fetching these tensors
    takes half as many bytes as fetching the responses.
    """
    values = dict(output)
    kind: Any = _reporting(type(output))  # type: ignore[arg-type]  # a class is hashable
    return kind.model_construct(output.model_fields_set, **values)


@cache
def _reporting(kind: type[AgentLoopOutput]) -> type[AgentLoopOutput]:
    """Return the reporting subclass of a class of outputs, created once."""
    base: Any = kind

    class Reporting(base):
        def as_dict(self) -> dict[str, Any]:
            fields: dict[str, Any] = super().as_dict()
            if self.reward_score is not None:
                fields["extra_fields"][REWARD] = float(self.reward_score)
            return fields

    return Reporting
