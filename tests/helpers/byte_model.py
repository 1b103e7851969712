"""Build an untrained byte-level Qwen3 for tool calls."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

_MARKERS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_TOOL_MARKERS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")


# In short what Qwen's own template does with tools.
_CHAT_TEMPLATE = (
    "{% if tools %}<|im_start|>system\n# Tools\n<tools>"
    "{% for tool in tools %}\n{{ tool | tojson }}{% endfor %}\n</tools><|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer() -> Any:
    """Return a byte tokenizer with a short chat template that knows tools."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(marker, special=True) for marker in _MARKERS])
    tokenizer.add_tokens([AddedToken(marker, normalized=False) for marker in _TOOL_MARKERS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="left",
    )
    fast.chat_template = _CHAT_TEMPLATE
    return fast


def qwen3_tokenizer() -> Any:
    """Return the tokenizer with Qwen3's template and TRL's schema for parsing tool calls."""
    from trl.chat_template_utils import add_response_schema, qwen3_chat_template

    tokenizer = byte_tokenizer()
    tokenizer.chat_template = qwen3_chat_template
    return add_response_schema(tokenizer)


def byte_model(tokenizer: Any) -> Any:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=2048,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config)
