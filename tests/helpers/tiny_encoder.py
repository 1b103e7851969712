"""Build a BERT that embeds texts as weighted bags of their words.

A word's vector is random and weighs less the more texts contain the word. A layer norm would undo
weights, so two numbers of every vector are not random but grow as the word's weight shrinks: they take up
the norm, and the last layer norm leaves them out. All else is at BERT's initial values, near zero. So the
mean over the tokens is about the weighted sum of the words' vectors.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "query", "passage", ":")


def save_tiny_encoder(
    folder: Path,
    texts: Iterable[str],
    *,
    dimension: int = 128,
    layers: int = 1,
    heads: int = 2,
    inner: int = 128,
    seed: int = 0,
) -> Path:
    """Save a checkpoint that knows the words of these texts and how common they are."""
    import torch
    from transformers import BertConfig, BertModel

    counts = Counter(word for text in texts for word in set(re.findall(r"\w+", text.lower())))
    words = [*_SPECIAL, *sorted(counts.keys() - set(_SPECIAL))]
    tokenizer = _tokenizer(words)
    shape = BertConfig(
        vocab_size=len(words),
        hidden_size=dimension,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner,
        max_position_embeddings=512,
        initializer_range=0.01,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = BertModel(shape)
        with torch.no_grad():
            _set_words(model, [_weight(word, counts) for word in words])
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _weight(word: str, counts: Counter[str]) -> float:
    """Return a weight from almost 0 for a word in every text to 1 for a word in one."""
    if word in _SPECIAL:
        return 0.01
    most = max(counts.values())
    return max(0.01, math.log(1 + most / counts[word]) / math.log(1 + most))


def _set_words(model: Any, weights: Sequence[float]) -> None:
    import torch

    vectors = model.embeddings.word_embeddings.weight
    vectors.normal_()
    heavy = torch.tensor([math.sqrt((1 / weight**2 - 1) / 2) for weight in weights])
    vectors[:, 0] = heavy * math.sqrt(vectors.shape[1])
    vectors[:, 1] = -vectors[:, 0]
    last = model.encoder.layer[-1].output.LayerNorm
    last.weight[:2] = 0


def _tokenizer(words: Sequence[str]) -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    numbers = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(word, numbers[word]) for word in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    )
