"""A prompt on its way to a host that asks for rewards elsewhere, with nothing but texts to go by.

Other processes unpickle it, so little is imported here.
"""

from __future__ import annotations

from collections.abc import Callable

from prompt_coevo.errors import HostError


class PlacedPrompt(str):
    """A rendered prompt of a rollout that also knows the question's own, for the reward."""

    question: str

    @classmethod
    def of(cls, text: str, question: str) -> PlacedPrompt:
        """Both are rendered."""
        placed = cls(text)
        placed.question = question
        return placed


def on_the_question(
    whole: str, prompt: str, decode: Callable[[str], str], advice: str
) -> tuple[str, str]:
    """Prompt with response, and the prompt: as if it had been sampled with the question's own.

    `whole` is decoded, as rewards get it, and `decode` gives a text as it comes out of the tokenizer again,
    which may change blanks. Raises HostError, with `advice`, if it does not begin with the prompt.
    """
    if not isinstance(prompt, PlacedPrompt):
        return whole, prompt
    decoded = decode(str(prompt))
    if not whole.startswith(decoded):
        raise HostError(
            "a response does not begin with the prompt that it was asked for, so its reward cannot be "
            f"that of the question; {advice}"
        )
    return decode(prompt.question) + whole[len(decoded) :], prompt.question
