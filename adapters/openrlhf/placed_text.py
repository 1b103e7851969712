"""A prompt that carries its question's own, for trainers that ask for rewards elsewhere by texts alone.

Other processes unpickle it, so little is imported here.
"""

from __future__ import annotations

from collections.abc import Callable

from prompt_coevo.errors import HostError


class PlacedPrompt(str):
    """A rollout's rendered prompt that also holds the question's own prompt, for the reward."""

    question: str

    @classmethod
    def of(cls, text: str, question: str) -> PlacedPrompt:
        """Create one from two rendered prompts."""
        placed = cls(text)
        placed.question = question
        return placed


def on_the_question(
    whole: str, prompt: str, decode: Callable[[str], str], advice: str
) -> tuple[str, str]:
    """Return prompt plus response, and the prompt, as if sampled under the question's own prompt.

    `whole` is decoded, as rewards get it; `decode` passes a text through the tokenizer and back, which may
    change spaces. Raises HostError, with `advice`, if `whole` does not begin with the prompt.
    """
    if not isinstance(prompt, PlacedPrompt):
        return whole, prompt
    decoded = decode(str(prompt))
    if not whole.startswith(decoded):
        raise HostError(
            "a response does not begin with its prompt, so it cannot be rewarded as an answer to the "
            f"question; {advice}"
        )
    return decode(prompt.question) + whole[len(decoded) :], prompt.question
