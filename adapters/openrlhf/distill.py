"""Context distillation of one response: its prompt's tokens change, everything after them shifts along."""

from __future__ import annotations

from collections.abc import Sequence

from prompt_coevo.adapters.common.placed import reached
from prompt_coevo.adapters.openrlhf.host import Response
from prompt_coevo.adapters.openrlhf.prompt_ids import PromptIds
from prompt_coevo.errors import HostError
from prompt_coevo.tokens import Tokenizer
from prompt_coevo.types import Assignment


def train_on(response: Response, trained: str, prompts: PromptIds) -> None:
    """Give a response the prompt to train on, which differs if it was sampled under a template.

    Raises HostError if its prompt cannot be exchanged, even where both prompts are the same, so that the
    first batch shows the problem.
    """
    exchange_prompt(response, prompts.of(response["prompt"]), trained, prompts.of(trained))


def check_placed(response: Response, assignment: Assignment, tokenizer: Tokenizer) -> None:
    """Raise HostError if a response was sampled on a prompt without what was placed in it."""
    starts = response["action_ranges"][:1]
    if starts and not reached(
        tokenizer, response["observation_tokens"][: starts[0][0]], assignment
    ):
        raise HostError(
            "a rollout with an instruction or a template was sampled on a prompt without it, so none would "
            "ever reach the policy; let the agent hand on the prompt that it is given, as reset() does "
            "with the observation"
        )


def exchange_prompt(
    response: Response, rolled_out: Sequence[int], prompt: str, prompt_ids: Sequence[int]
) -> None:
    """Rewrite a response as if it had been sampled under `prompt` instead of the ids `rolled_out`.

    Raises HostError if it does not begin with these ids: the prompt was cut off, or an agent edited it.
    """
    tokens, ranges = response["observation_tokens"], response["action_ranges"]
    log_probs, start = response["rollout_log_probs"], len(rolled_out)
    starts = [first for first, _ in ranges]
    if list(tokens[:start]) != list(rolled_out) or (
        starts and not start == starts[0] == min(starts)
    ):
        raise HostError(
            "a response does not begin with the prompt that it was asked for, so the prompt cannot be "
            "exchanged for the question: an agent must hand on the prompt unchanged, as reset() does with "
            "the observation (or set --coevo.context_distillation false)"
        )
    response["prompt"] = prompt
    if list(prompt_ids) != list(rolled_out):
        shift = len(prompt_ids) - start
        response["observation_tokens"] = [*prompt_ids, *tokens[start:]]
        response["action_ranges"] = [(first + shift, last + shift) for first, last in ranges]
        if log_probs:
            response["rollout_log_probs"] = [0.0] * len(prompt_ids) + [*log_probs[start:]]
