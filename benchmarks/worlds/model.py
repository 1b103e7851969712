"""Build the base policy's parts on transformers classes: a word-level tokenizer and a small Llama."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from prompt_coevo.demo.digits import FILLERS, SKILL_NAMES
from worlds.pairs.world import FUNCTION_WORDS, WORDS

_PAD, _END, _UNKNOWN = "<pad>", "<end>", "<unknown>"
SPECIAL_WORDS = (_PAD, _END, _UNKNOWN, "<system>", "<user>", "<assistant>")
"""The special tokens of all tokenizers here, roles of the chat template among them."""
_CHAT_TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}> {{ message.content }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def base_policy_path() -> Path:
    """Return the folder of the base checkpoint that comes with the package."""
    return Path(str(resources.files("prompt_coevo.demo") / "base"))


def build_tokenizer(
    problem_words: Sequence[str] = WORDS, function_words: Sequence[str] = FUNCTION_WORDS
) -> Any:
    """Build a `PreTrainedTokenizerFast` that knows every word of the world, with a chat template."""
    from tokenizers import pre_tokenizers

    digits = [str(digit) for digit in range(10)]
    words = [
        *SPECIAL_WORDS,
        *digits,
        *SKILL_NAMES,
        *problem_words,
        *FILLERS,
        *function_words,
    ]
    return word_tokenizer(words, pre_tokenizers.WhitespaceSplit())


def word_tokenizer(words: Sequence[str], pre_tokenizer: Any) -> Any:
    """Build a `PreTrainedTokenizerFast` with a token for each word, including special ones."""
    from tokenizers import AddedToken, Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=_UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.add_special_tokens([AddedToken(word, special=True) for word in SPECIAL_WORDS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=_PAD,
        eos_token=_END,
        unk_token=_UNKNOWN,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = _CHAT_TEMPLATE
    return fast


def build_model(tokenizer: Any) -> Any:
    """Build an untrained `LlamaForCausalLM` of about 150 000 parameters."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=176,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=256,
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0},
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    return LlamaForCausalLM(config)


def widen_heads(model: Any) -> Any:
    """Return a model with heads twice as wide that computes the same, for servers that need them.

    Zeros follow each half of a rotary head. They stay zero in training: their gradients are.
    """
    import torch

    config = copy.deepcopy(model.config)
    old, heads = config.head_dim, config.num_attention_heads
    # Pair i of a wide half turns as pair i of a narrow one did.
    theta = config.rope_parameters["rope_theta"]
    config.rope_parameters = {**config.rope_parameters, "rope_theta": theta**2}
    config.head_dim = 2 * old
    kept = torch.arange(old) + (torch.arange(old) >= old // 2) * (old // 2)

    def widened(name: str, weight: Any) -> Any:
        kind = name.split(".")[-2]
        if kind in ("q_proj", "k_proj", "v_proj"):
            wide = weight.new_zeros(heads, 2 * old, weight.shape[1])
            # Attention divides by the root of the width, which is larger now.
            wide[:, kept] = weight.view(heads, old, -1) * (2**0.5 if kind == "q_proj" else 1)
            return wide.flatten(0, 1)
        if kind == "o_proj":
            wide = weight.new_zeros(weight.shape[0], heads, 2 * old)
            wide[:, :, kept] = weight.view(-1, heads, old)
            return wide.flatten(1)
        return weight

    wide_model = type(model)(config)
    weights = {name: widened(name, weight) for name, weight in model.state_dict().items()}
    wide_model.load_state_dict(weights)
    return wide_model
