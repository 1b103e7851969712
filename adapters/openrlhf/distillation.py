"""Context distillation of one response: its prompt's tokens change, everything after them moves along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prompt_coevo.doors.distill import shift_ranges
from prompt_coevo.errors import HostError


def check_prompt(response: Mapping[str, Any], rolled_out: Sequence[int]) -> None:
    """Raise HostError if the response does not begin with `rolled_out`, the prompt that it was asked for.

    That is so for a prompt that was cut off, and for an agent that edits it.
    """
    tokens, ranges = response["observation_tokens"], response["action_ranges"]
    start = len(rolled_out)
    if list(tokens[:start]) != list(rolled_out) or (ranges and ranges[0][0] != start):
        raise HostError(
            "a response does not begin with the prompt that it was asked for, so the prompt cannot be "
            "exchanged for the question: an agent's reset() must hand on the observation unchanged (or "
            "set --coevo.context_distillation false)"
        )


def with_prompt(
    response: Mapping[str, Any], rolled_out: Sequence[int], prompt: str, prompt_ids: Sequence[int]
) -> dict[str, Any]:
    """The response as if it had been sampled under `prompt`.

    `rolled_out` are the ids of the prompt that it was sampled under. Raises HostError if the response
    does not begin with them.
    """
    check_prompt(response, rolled_out)
    tokens, start = list(response["observation_tokens"]), len(rolled_out)
    ranges = [tuple(one) for one in response["action_ranges"]]
    log_probs = response["rollout_log_probs"]
    return {
        **response,
        "prompt": prompt,
        "observation_tokens": [*prompt_ids, *tokens[start:]],
        "action_ranges": shift_ranges(ranges, start, len(prompt_ids)),
        "rollout_log_probs": log_probs and [0.0] * len(prompt_ids) + list(log_probs[start:]),
    }
