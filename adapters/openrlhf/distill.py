"""Context distillation of one response: its prompt's tokens change, everything after them shifts along."""

from __future__ import annotations

from collections.abc import Sequence

from prompt_coevo.adapters.common.distill import TokenRow
from prompt_coevo.adapters.openrlhf.host import Response
from prompt_coevo.adapters.openrlhf.prompt_ids import PromptIds
from prompt_coevo.errors import HostError


def train_on(response: Response, trained: str, prompts: PromptIds) -> None:
    """Give a response the prompt to train on, which differs if it was sampled under a template.

    Raises HostError if its prompt cannot be exchanged, even where both prompts are the same, so that the
    first batch shows the problem.
    """
    exchange_prompt(response, prompts.of(response["prompt"]), trained, prompts.of(trained))


def check_placed(response: Response, question: str, prompts: PromptIds) -> None:
    """Raise HostError if a response to a placed prompt was sampled on its bare question instead."""
    starts = response["action_ranges"][:1]
    if starts and list(response["observation_tokens"][: starts[0][0]]) == prompts.of(question):
        raise HostError(
            "a rollout with an instruction or a template was sampled on the question alone, so none would "
            "ever reach the policy; let the agent's reset() hand on the observation that it is given"
        )


def exchange_prompt(
    response: Response, rolled_out: Sequence[int], prompt: str, prompt_ids: Sequence[int]
) -> None:
    """Rewrite a response as if it had been sampled under `prompt` instead of the ids `rolled_out`.

    Changes the response and its lists in place. Raises HostError if it does not begin with these ids.
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
