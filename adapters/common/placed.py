"""Find out whether an instruction or a template reached the policy."""

from __future__ import annotations

from collections.abc import Sequence

from prompt_coevo.tokens import Tokenizer, encode
from prompt_coevo.types import Assignment


def reached(tokenizer: Tokenizer, prompt_ids: Sequence[int], assignment: Assignment) -> bool:
    """Check that the prompt's tokens hold the texts that were placed in it.

    Texts are compared as the tokenizer decodes them, without white space, which chat templates change.
    """
    placed = [one.text for one in (assignment.instruction, assignment.template) if one and one.text]
    if not placed:
        return True
    ids = [encode(tokenizer, text) for text in placed]
    prompt, *texts = (
        "".join(text.split())
        for text in tokenizer.batch_decode([list(prompt_ids), *ids], skip_special_tokens=False)
    )
    return all(text in prompt for text in texts)
