"""Put untrusted text into our prompts: fenced by tags that it cannot close, and cut to size."""

from __future__ import annotations

from collections.abc import Callable

from prompt_coevo.fences import FENCE, OWN_TAG
from prompt_coevo.proposals import Trajectory


def neutralise(text: str) -> str:
    """Replace the opening bracket of everything that looks like one of our tags."""
    return OWN_TAG.sub(r"‹\1", text)


def neutralise_fences(text: str) -> str:
    """Replace brackets as `neutralise` does, but only in tags that fence candidates.

    A user's instruction may mention a <question> or a <response>; its successors must keep them.
    """
    return FENCE.sub(r"‹\1", text)


def cut(text: str, max_tokens: int, count_tokens: Callable[[str], int]) -> str:
    """Cut a long text to its beginning and its (longer) end, with a note of what is left out."""
    tokens = count_tokens(text)
    if tokens <= max_tokens:
        return text
    keep = len(text) * max_tokens // tokens
    head = keep // 3
    tail = keep - head
    return f"{text[:head]}\n[... {len(text) - keep} characters left out ...]\n{text[-tail:]}"


def show_failure(
    number: int, trajectory: Trajectory, max_tokens: int, count_tokens: Callable[[str], int]
) -> str:
    """Write a failed trajectory, fenced, for a reflection prompt."""

    def fenced(tag: str, text: str) -> str:
        return f"<{tag}>\n{neutralise(cut(text, max_tokens, count_tokens))}\n</{tag}>"

    lines = [
        f"<failure_{number}>",
        fenced("question", trajectory.question),
        fenced("response", trajectory.completion),
        f"<reward>{trajectory.reward:g}</reward>",
    ]
    if trajectory.ground_truth is not None:
        lines.append(fenced("correct_answer", trajectory.ground_truth))
    return "\n".join([*lines, f"</failure_{number}>"])
