"""Load a real language model and its tokenizer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch
import transformers

from prompt_coevo.demo.unnamed.values import CHAT
from prompt_coevo.errors import SettingsError
from prompt_coevo.machine import free_memory
from prompt_coevo.visible import in_a_line

_BYTES: Final = 16
"""Per parameter, in float32: the weight, its gradient, and Adam's two moments."""


def load_model(model: object, dtype: torch.dtype = torch.float32) -> transformers.PreTrainedModel:
    """Load a model by folder or name. Raises SettingsError, also if its weights are not those that its
    configuration asks for."""
    with _loading("model", model):
        loaded, info = transformers.AutoModelForCausalLM.from_pretrained(
            model, dtype=dtype, output_loading_info=True
        )
    known = {_anywhere(name) for name in loaded.state_dict()}
    wrong = {
        "missing": info["missing_keys"],
        "of another shape": info["mismatched_keys"],
        # A value head, or what an older version kept, does no harm; a layer that is left out does.
        "left over": {name for name in info["unexpected_keys"] if _anywhere(name) in known},
    }
    for how, names in wrong.items():
        if names:
            raise SettingsError(
                f"the weights in {model} do not fit its config.json: {how} are "
                f"{in_a_line(sorted(map(str, names)), 200)}; one of the two files is not this model's"
            )
    return loaded


def _anywhere(name: str) -> str:
    """Return a weight's name without the number of its layer."""
    return re.sub(r"\d+", "N", name)


def least_memory(model: object) -> int:
    """Return the bytes that training a model takes, without activations; reads its configuration only.

    Raises SettingsError for a model that cannot be found, or is none that writes text.
    """
    with _loading("model", model), torch.device("meta"):
        config = transformers.AutoConfig.from_pretrained(model)
        empty = transformers.AutoModelForCausalLM.from_config(config)
    return _BYTES * int(empty.num_parameters())


def memory_to_train_in() -> int | None:
    """Return the free bytes of the GPU, or of this machine if it has none; None if it does not tell."""
    return torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else free_memory()


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
