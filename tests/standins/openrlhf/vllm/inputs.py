"""Replace `vllm.inputs`."""

from __future__ import annotations

from typing import TypedDict


class TokensPrompt(TypedDict):
    """A prompt as token ids."""

    prompt_token_ids: list[int]
