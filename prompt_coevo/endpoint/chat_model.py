"""A litellm model that is given a chat and a temperature."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from prompt_coevo.reflection.litellm_model import LiteLLMModel


class ChatModel(LiteLLMModel):
    """As the reflection model, but a prompt is what `packed` gives."""

    def _call(self, prompt: str, most_tokens: int, seconds: float) -> Any:
        asked = json.loads(prompt)
        return self._litellm.completion(
            model=self._model,
            messages=asked["messages"],
            temperature=asked["temperature"],
            max_tokens=most_tokens,
            timeout=seconds,
            api_base=self._settings.api_base,
            api_key=self._key or None,
            num_retries=0,
            max_retries=0,
        )


def packed(messages: Sequence[Mapping[str, Any]], temperature: float | None) -> str:
    """A chat and its temperature (None: the model's own) as one text, the same for what is the same."""
    asked = {"messages": list(messages), "temperature": temperature}
    return json.dumps(asked, sort_keys=True, ensure_ascii=False)
