"""Load a real language model and its tokenizer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import transformers

from prompt_coevo.demo.unnamed.values import CHAT
from prompt_coevo.errors import SettingsError
from prompt_coevo.visible import in_a_line


def load_model(model: object) -> transformers.PreTrainedModel:
    """Load a model in float32 by folder or name. Raises SettingsError."""
    with _loading(model):
        return transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)


def load_tokenizer(model: object) -> transformers.PreTrainedTokenizerBase:
    """Load a model's tokenizer by folder or name; SmolLM2's gets the chat template `CHAT`.

    Raises SettingsError for one that cannot be loaded or has no chat template.
    """
    with _loading(model):
        tokenizer = transformers.AutoTokenizer.from_pretrained(model, padding_side="left")
    if "named SmolLM" in (tokenizer.chat_template or ""):
        tokenizer.chat_template = CHAT
    if not tokenizer.chat_template:
        raise SettingsError(
            f"the tokenizer in {model} has no chat template: give an instruction-tuned model"
        )
    return tokenizer


@contextmanager
def _loading(model: object) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # from transformers, safetensors, tokenizers or a hub
        said = in_a_line(error, 300)
        raise SettingsError(f"transformers cannot load a model from {model}: {said}") from None
