"""Context distillation of one response: its prompt's tokens change, everything after them moves along."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

from prompt_coevo.adapters.openrlhf.host import Response
from prompt_coevo.adapters.openrlhf.questions import CoevoPromptDataset
from prompt_coevo.doors.distill import shift_ranges
from prompt_coevo.doors.questions import QuestionIndex
from prompt_coevo.errors import HostError
from prompt_coevo.tokens import encode
from prompt_coevo.types import Assignment


class PromptExchange:
    """Exchanges the prompts of distilled rollouts for those to train on.

    With `may_distil`, prompts that may be exchanged later are looked at from the first batch on.
    """

    def __init__(
        self, dataset: CoevoPromptDataset, questions: QuestionIndex, may_distil: bool
    ) -> None:
        self._dataset = dataset
        self._questions = questions
        self._may_distil = may_distil
        # A group's responses come one by one, and share their prompts.
        self._ids = lru_cache(maxsize=1024)(partial(encode, dataset.tokenizer))

    def apply(self, response: Response, assignment: Assignment) -> Response:
        """The response to train on. Raises HostError if its prompt cannot be exchanged."""
        if not (self._may_distil or assignment.distilled):
            return response
        rolled_out = self._ids(response["prompt"])
        if not assignment.distilled:
            check_prompt(response, rolled_out)
            return response
        question = self._questions.question(assignment.question_id)
        trained = self._dataset.render(assignment.train_prompt(question.prompt))
        return with_prompt(response, rolled_out, trained, self._ids(trained))


def check_prompt(response: Response, rolled_out: Sequence[int]) -> None:
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
    response: Response, rolled_out: Sequence[int], prompt: str, prompt_ids: Sequence[int]
) -> Response:
    """The response as if it had been sampled under `prompt`.

    `rolled_out` are the ids of the prompt that it was sampled under. Raises HostError if the response
    does not begin with them.
    """
    check_prompt(response, rolled_out)
    start, log_probs = len(rolled_out), response["rollout_log_probs"]
    return {
        **response,
        "prompt": prompt,
        "observation_tokens": [*prompt_ids, *response["observation_tokens"][start:]],
        "action_ranges": shift_ranges(
            [(first, last) for first, last in response["action_ranges"]], start, len(prompt_ids)
        ),
        "rollout_log_probs": log_probs and [0.0] * len(prompt_ids) + list(log_probs[start:]),
    }
