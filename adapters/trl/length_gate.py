"""A gate of this door: the placed prompt and a completion must fit into the model.

Nothing in TRL truncates a prompt; an overlong one fails in vLLM or runs out of positions. The model's
limit is looked for at the top of its configuration; one that is in `text_config` is not found.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from prompt_coevo.doors.length_gate import PromptLengthGate
from prompt_coevo.doors.questions import QuestionIndex
from prompt_coevo.placement import Placement, Prompt
from prompt_coevo.tokens import encode


def length_gate(trainer: Any, questions: QuestionIndex, placement: Placement) -> PromptLengthGate:
    """The gate for this trainer's model, its sampler and its longest completion."""
    return PromptLengthGate(
        questions,
        placement,
        needed=partial(_needed, trainer),
        limit=partial(_limit, trainer),
        limit_name="the model has room for",
        count_tokens=lambda text: len(encode(trainer.processing_class, text)),
    )


def _needed(trainer: Any, prompts: Sequence[Prompt]) -> int:
    return _prompt_tokens(trainer.processing_class, prompts) + (trainer.max_completion_length or 0)


def _prompt_tokens(processing_class: Any, prompts: Sequence[Prompt]) -> int:
    if isinstance(prompts[0], str):
        return max(len(encode(processing_class, str(prompt))) for prompt in prompts)
    ids = processing_class.apply_chat_template(
        list(prompts), add_generation_prompt=True, tokenize=True, return_dict=True
    )["input_ids"]
    return max(map(len, ids))


def _limit(trainer: Any) -> int | None:
    limits = [getattr(trainer.model.config, "max_position_embeddings", None)]
    if trainer.use_vllm:
        limits.append(getattr(trainer.args, "vllm_max_model_length", None))
    return min((limit for limit in limits if limit is not None), default=None)
