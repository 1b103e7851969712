"""Token ids by a tokenizer or processor of transformers, which is not imported here."""

from __future__ import annotations

from typing import Any


def encode(processing_class: Any, text: str) -> list[int]:
    """The ids of a text, without any special tokens around it."""
    tokenizer = getattr(processing_class, "tokenizer", processing_class)
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def vocabulary_size(model_config: Any) -> int | None:
    """How many ids a model of transformers has embeddings for, None if its configuration hides it."""
    size: int | None = getattr(model_config.get_text_config(), "vocab_size", None)
    return size
