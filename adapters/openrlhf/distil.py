"""Context distillation of one response: its prompt's tokens change, everything after them moves along."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from prompt_coevo.adapters.openrlhf.host import Response
from prompt_coevo.doors.distill import TokenRow
from prompt_coevo.tokens import encode


def to_train_on(response: Response, trained: str, tokenizer: Any) -> Response:
    """The response with the prompt that it is trained on, which differs if it was sampled under a template.

    Raises HostError if its prompt cannot be exchanged, also for the same: that shows in the first batch.
    """
    rolled_out = _ids(tokenizer, response["prompt"])
    return with_prompt(response, rolled_out, trained, _ids(tokenizer, trained))


def with_prompt(
    response: Response, rolled_out: Sequence[int], prompt: str, prompt_ids: Sequence[int]
) -> Response:
    """The response as if it had been sampled under `prompt`, and not under the ids `rolled_out`.

    Raises HostError if it does not begin with these.
    """
    tokens, ranges = response["observation_tokens"], response["action_ranges"]
    row = TokenRow(tokens, ranges, response["rollout_log_probs"]).exchanged(
        rolled_out,
        prompt_ids,
        "an agent's reset() must hand on the observation unchanged (or set "
        "--coevo.context_distillation false)",
    )
    return {
        **response,
        "prompt": prompt,
        "observation_tokens": row.ids,
        "action_ranges": row.ranges,
        "rollout_log_probs": row.log_probs,
    }


@lru_cache(maxsize=1024)  # a group's responses come one by one, and share their prompts
def _ids(tokenizer: Any, text: str) -> list[int]:
    return encode(tokenizer, text)
