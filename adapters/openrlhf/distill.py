"""Context distillation of one response: its prompt's tokens change, everything after them moves along."""

from __future__ import annotations

from collections.abc import Sequence

from prompt_coevo.adapters.common.distill import TokenRow
from prompt_coevo.adapters.openrlhf.host import Response
from prompt_coevo.adapters.openrlhf.prompt_ids import PromptIds


def train_on(response: Response, trained: str, prompts: PromptIds) -> None:
    """Give a response the prompt that it is trained on, which differs if it was sampled under a template.

    Raises HostError if its prompt cannot be exchanged, also for the same: that shows in the first batch.
    """
    exchange_prompt(response, prompts.of(response["prompt"]), trained, prompts.of(trained))


def exchange_prompt(
    response: Response, rolled_out: Sequence[int], prompt: str, prompt_ids: Sequence[int]
) -> None:
    """Make a response one that was sampled under `prompt`, and not under the ids `rolled_out`.

    The response and its lists are changed themselves. Raises HostError if it does not begin with these ids.
    """
    tokens, ranges = response["observation_tokens"], response["action_ranges"]
    row = TokenRow(tokens, ranges, response["rollout_log_probs"]).exchanged(
        rolled_out,
        prompt_ids,
        "an agent's reset() must hand on the observation unchanged (or set "
        "--coevo.context_distillation false)",
    )
    response["prompt"] = prompt
    response["observation_tokens"] = row.ids
    response["action_ranges"] = row.ranges
    response["rollout_log_probs"] = row.log_probs
