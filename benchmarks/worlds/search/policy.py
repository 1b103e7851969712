"""Make a small search agent from scratch: `python benchmarks/worlds search --out DIR`.

It learns from generated episodes (`examples`) to ask, to read and to answer, with and without a system
message, and it learns the mistakes in them, which are left for reinforcement learning.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from prompt_coevo.retrieval.agent.episode import INVALID_TURN, NOTHING_FOUND, UNAVAILABLE
from prompt_coevo.rng import counter_rng
from worlds.model import SPECIAL_WORDS, word_tokenizer
from worlds.search.examples import (
    ADVICE,
    FILLERS,
    TAG_PAIRS,
    ExampleWriter,
    Part,
    habits_under,
    instruction,
    question,
)
from worlds.search.world import ENTITIES, OPENINGS, RELATIONS

_OTHER_WORDS: Final = (
    f"what is the of not found ? . ) Doc {' '.join(f'{n}(Title:' for n in range(1, 11))} "
    "The search was refused:"
)
_WITH_INSTRUCTION: Final = 0.6
_SORTED_TOGETHER: Final = 8


def words() -> list[str]:
    """Return the vocabulary of world, protocol and instructions."""
    texts = [
        *SPECIAL_WORDS,
        *TAG_PAIRS,
        _OTHER_WORDS,
        *chain(*RELATIONS.values(), *ENTITIES.values()),
        *OPENINGS,
        *FILLERS,
        *ADVICE,
        INVALID_TURN,
        UNAVAILABLE,
        NOTHING_FOUND,
    ]
    return list(dict.fromkeys(" ".join(texts).replace(".", " . ").split()))


def build_tokenizer() -> Any:
    """Build a `PreTrainedTokenizerFast` with one token per word and tag, and a chat template.

    Tags are no special tokens: decoding must not lose them.
    """
    from tokenizers import Regex, pre_tokenizers

    split = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r'[\s"]+'), "removed"),
            pre_tokenizers.Split(Regex(r"</?[a-z]+>|[).?]"), "isolated"),
        ]
    )
    return word_tokenizer(words(), split)


def build_model(tokenizer: Any) -> Any:
    """Build an untrained `LlamaForCausalLM` of about 110 000 parameters.

    Its weights start larger than usual, so it learns sooner to look things up in its context.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=512,
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0},
        tie_word_embeddings=True,
        initializer_range=0.1,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    return LlamaForCausalLM(config)


def example(rng: np.random.Generator) -> tuple[list[dict[str, str]], list[Part]]:
    """Return a chat to learn from: the prompt, and the parts of the episode after it."""
    asked = question(rng)
    text = instruction(rng) if rng.random() < _WITH_INSTRUCTION else ""
    chat = [{"role": "user", "content": asked.text}]
    if text:
        chat.insert(0, {"role": "system", "content": text})
    return chat, ExampleWriter(asked, habits_under(text), rng).write()


def batches(tokenizer: Any, rng: np.random.Generator, size: int) -> Iterator[tuple[Any, Any]]:
    """Yield token ids and targets, (size x longest) each, in batches of examples of about one length.

    The target is -100 for all that the policy does not write itself.
    """
    from torch.nn.utils.rnn import pad_sequence

    rows = sorted(_rows(tokenizer, rng, size * _SORTED_TOGETHER), key=lambda row: len(row[0]))
    for place in rng.permutation(_SORTED_TOGETHER):
        part = rows[place * size : (place + 1) * size]
        yield (
            pad_sequence([ids for ids, _ in part], True, tokenizer.pad_token_id),
            pad_sequence([targets for _, targets in part], True, -100),
        )


def _rows(tokenizer: Any, rng: np.random.Generator, number: int) -> list[tuple[Any, Any]]:
    """Return the token ids and targets of `number` examples."""
    import torch

    examples = [example(rng) for _ in range(number)]
    prompts = tokenizer.apply_chat_template(
        [chat for chat, _ in examples], add_generation_prompt=True, tokenize=False
    )
    texts = [
        [Part(prompt, own=False), *parts]
        for prompt, (_, parts) in zip(prompts, examples, strict=True)
    ]
    encoded = iter(tokenizer([part.text for row in texts for part in row])["input_ids"])
    rows = []
    for row in texts:
        spans = [(next(encoded), part.own) for part in row]
        ids = torch.tensor([token for span, _ in spans for token in span])
        own = torch.tensor([own for span, own in spans for _ in span])
        rows.append((ids, ids.masked_fill(~own, -100)))
    return rows


def train(
    *,
    steps: int = 500,
    batch_size: int = 32,
    learning_rate: float = 6e-3,
    seed: int = 0,
    report: Callable[[str], object] = lambda line: None,
) -> tuple[Any, Any]:
    """Train a fresh policy for `steps` steps and return it with its tokenizer."""
    import torch
    from torch.nn import functional

    torch.manual_seed(seed)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=learning_rate, weight_decay=0.01, betas=(0.9, 0.98)
    )
    started = time.monotonic()
    rounds = (counter_rng(seed, "search-policy", number) for number in count())
    data = chain.from_iterable(batches(tokenizer, rng, batch_size) for rng in rounds)
    for step, (ids, targets) in enumerate(islice(data, steps)):
        for group in optimizer.param_groups:
            decay = 0.5 * (1 + math.cos(math.pi * step / steps))
            group["lr"] = learning_rate * min(1.0, (step + 1) / 50) * max(0.03, decay)
        logits = model(input_ids=ids).logits[:, :-1]
        loss = functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), targets[:, 1:].reshape(-1)
        )
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0 or step == steps - 1:
            report(f"step {step}: loss {loss.item():.3f}, {time.monotonic() - started:.0f} s")
    return model.eval(), tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=6e-3)
    options = parser.parse_args()
    model, tokenizer = train(
        steps=options.steps,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        seed=options.seed,
        report=print,
    )
    model.save_pretrained(options.out)
    tokenizer.save_pretrained(options.out)


if __name__ == "__main__":
    main()
