"""Load a real language model and its tokenizer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import transformers

from prompt_coevo.demo.unnamed.values import CHAT
from prompt_coevo.errors import SettingsError
from prompt_coevo.visible import in_a_line


def load_model(model: object, dtype: torch.dtype = torch.float32) -> transformers.PreTrainedModel:
    """Load a model by folder or name. Raises SettingsError, also if its weights are not those that its
    configuration asks for."""
    with _loading("model", model):
        loaded, info = transformers.AutoModelForCausalLM.from_pretrained(
            model, dtype=dtype, output_loading_info=True
        )
    for wrong in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[wrong]:
            raise SettingsError(
                f"the weights in {model} do not fit its config.json: {wrong.replace('_', ' ')} "
                f"{in_a_line(sorted(map(str, info[wrong])), 200)}; get the model again"
            )
    return loaded


def load_tokenizer(model: object) -> transformers.PreTrainedTokenizerBase:
    """Load a model's tokenizer by folder or name; SmolLM2's gets the chat template `CHAT`, and one that
    cannot pad pads with its end token, as TRL's does.

    Raises SettingsError for one that cannot be loaded, or has no chat template or no end token.
    """
    with _loading("tokenizer", model):
        tokenizer = transformers.AutoTokenizer.from_pretrained(model, padding_side="left")
    if "named SmolLM" in (tokenizer.chat_template or ""):
        tokenizer.chat_template = CHAT
    if not tokenizer.chat_template:
        raise SettingsError(
            f"the tokenizer in {model} has no chat template: give an instruction-tuned model"
        )
    if tokenizer.eos_token is None:
        raise SettingsError(
            f"the tokenizer in {model} has no end token: its tokenizer_config.json should name one"
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


@contextmanager
def _loading(what: str, model: object) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # from transformers, safetensors, tokenizers or a hub
        said = in_a_line(error, 300)
        raise SettingsError(f"transformers cannot load a {what} from {model}: {said}") from None
