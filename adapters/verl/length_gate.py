"""A gate of this door: the placed prompt must fit into `data.max_prompt_length`.

VeRL cuts a longer one off at the left with a warning, and the instruction goes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prompt_coevo.doors.length_gate import PromptLengthGate, PromptLimit
from prompt_coevo.doors.questions import QuestionIndex
from prompt_coevo.placement import Placement, Prompt
from prompt_coevo.tokens import encode


def length_gate(trainer: Any, questions: QuestionIndex, placement: Placement) -> PromptLengthGate:
    """The gate for this trainer's rollouts."""
    data = trainer.config.data
    limit: int = trainer.config.actor_rollout_ref.rollout.prompt_length
    extra = dict(data.get("apply_chat_template_kwargs") or {})
    tools = getattr(trainer.train_dataset, "tool_schemas", None)
    if tools:
        extra["tools"] = tools

    def needed(prompts: Sequence[Prompt]) -> int:
        ids = trainer.tokenizer.apply_chat_template(
            list(prompts), add_generation_prompt=True, tokenize=True, return_dict=True, **extra
        )["input_ids"]
        return max(map(len, ids))

    return PromptLengthGate(
        questions,
        placement,
        PromptLimit(needed, lambda: limit, "data.max_prompt_length is"),
        count_tokens=lambda text: len(encode(trainer.tokenizer, text)),
    )
