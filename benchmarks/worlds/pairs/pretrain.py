"""Make the base checkpoint from scratch: `python benchmarks/worlds pairs --out DIR`.

The policy learns the format, the skills, and to believe a hint about a word's meaning about eight times in
ten, wherever the hint is (system message or before the question). Without a hint it follows the world's
prior: right on easy words every second time, on hard words practically never.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from prompt_coevo.demo.digits import FILLERS, SKILL_NAMES, SKILLS
from prompt_coevo.rng import counter_rng
from worlds.model import build_model, build_tokenizer
from worlds.pairs.world import WORDS, World, answer_text

_HINTED = 0.62
_OBEYED = 0.8
_ABOUT_A_WORD = 0.3  # chance that a clause is about the first word, and the same for the second
_FILLER = 0.2
_SKILL_WEIGHT = 4.0
_LENGTHS = {4: 0.65, 5: 0.22, 6: 0.13}

Chat: TypeAlias = list[dict[str, str]]
Example: TypeAlias = Callable[[np.random.Generator, int], Chat]
"""A chat to learn from, about a list of this length."""


def example(world: World, rng: np.random.Generator, length: int) -> Chat:
    """Return a chat to learn from: a question, sometimes with hints, and an answer."""
    words = (WORDS[rng.integers(len(WORDS))], WORDS[rng.integers(len(WORDS))])
    skills = [SKILL_NAMES[rng.choice(len(SKILLS), p=world.prior[WORDS.index(w)])] for w in words]
    digits = tuple(rng.integers(0, 10, length).tolist())
    question = f"use {words[0]} then {words[1]} on {' '.join(map(str, digits))}"
    chat = [{"role": "user", "content": question}]
    if rng.random() < _HINTED:
        hints = _hints(words, rng)
        for place, word in enumerate(words):
            if word in hints and rng.random() < _OBEYED:
                skills[place] = hints[word]
        text = shuffled([f"{word} means {skill} ." for word, skill in hints.items()], rng)
        if rng.random() < 0.4:
            chat.insert(0, {"role": "system", "content": text})
        else:
            chat[0]["content"] = f"{text} {question}"
    answer = answer_text(words, (skills[0], skills[1]), digits)
    return [*chat, {"role": "assistant", "content": answer}]


def _hints(words: tuple[str, str], rng: np.random.Generator) -> dict[str, str]:
    count = rng.integers(1, 5) if rng.random() < 0.8 else rng.integers(5, 11)
    hints = {}
    for _ in range(count):
        draw = rng.random()
        if draw < _ABOUT_A_WORD:
            word = words[0]
        elif draw < 2 * _ABOUT_A_WORD:
            word = words[1]
        else:
            word = WORDS[rng.integers(len(WORDS))]
        hints[word] = SKILL_NAMES[rng.integers(len(SKILLS))]
    return hints


def shuffled(clauses: Sequence[str], rng: np.random.Generator) -> str:
    """Return explanations in any order, now and then with a filler word before one."""
    parts = []
    for index in rng.permutation(len(clauses)):
        if rng.random() < _FILLER:
            parts.append(FILLERS[rng.integers(len(FILLERS))])
        parts.append(clauses[index])
    return " ".join(parts)


def pretrain(
    model: Any,
    tokenizer: Any,
    example: Example,
    lengths: Mapping[int, float],
    *,
    steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    parts: int = 1,
) -> None:
    """Train the model for `steps` steps on examples about lists of these lengths, by their chances.

    A batch goes through the model in `parts` of about one length each: less padding.
    """
    import torch

    skill_ids = torch.tensor(tokenizer.convert_tokens_to_ids(list(SKILL_NAMES)))
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=learning_rate, weight_decay=0.01, betas=(0.9, 0.98)
    )
    started = time.monotonic()
    for step in range(steps):
        rng = counter_rng(seed, "demo/pretrain", step)
        length = int(rng.choice(list(lengths), p=list(lengths.values())))
        chats = [example(rng, length) for _ in range(batch_size)]
        batches = _token_batches(tokenizer, chats, skill_ids, parts)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * _scheduled(step, steps)
        optimizer.zero_grad()
        loss, whole = 0.0, sum(weight.sum() for *_, weight in batches)
        for batch in batches:
            share = _weighted_loss(model, *batch) / whole
            share.backward()
            loss += share.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 200 == 0 or step == steps - 1:
            print(f"step {step}: loss {loss:.3f}, {time.monotonic() - started:.0f} s", flush=True)
    model.eval()


def _scheduled(step: int, steps: int) -> float:
    """Return the learning rate's factor in this step: a rise over 100 steps, then a cosine decay."""
    decay = 0.5 * (1 + math.cos(math.pi * step / steps))
    return min(1.0, (step + 1) / 100) * max(0.03, decay)


def _token_batches(
    tokenizer: Any, chats: list[Chat], skill_ids: Any, parts: int
) -> list[tuple[Any, Any, Any, Any]]:
    """Return token ids, attention mask, targets and weights, of each part of about one length."""
    import torch

    if parts > 1:
        chats = sorted(chats, key=lambda chat: sum(len(turn["content"].split()) for turn in chat))
    batches = []
    for part in np.array_split(np.arange(len(chats)), parts):
        ids, mask, target = _batch(tokenizer, [chats[row] for row in part])
        weight = torch.where(torch.isin(target, skill_ids), _SKILL_WEIGHT, 1.0) * (target >= 0)
        batches.append((ids, mask, target, weight))
    return batches


def _weighted_loss(model: Any, ids: Any, mask: Any, target: Any, weight: Any) -> Any:
    """Return the weighted sum of a part's losses."""
    from torch.nn import functional

    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
    losses = functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), target.reshape(-1), reduction="none"
    )
    return (losses * weight.reshape(-1)).sum()


def _batch(tokenizer: Any, chats: list[Chat]) -> tuple[Any, Any, Any]:
    """Return token ids, attention mask and the targets after each but the last, -100 for prompts."""
    assistant = tokenizer.convert_tokens_to_ids("<assistant>")
    texts = tokenizer.apply_chat_template(chats, tokenize=False)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    answered = (ids == assistant).cumsum(1) - (ids == assistant).long() > 0
    return ids, mask, ids[:, 1:].masked_fill(~(answered & mask.bool())[:, 1:], -100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--world", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    options = parser.parse_args()
    import torch

    torch.manual_seed(options.seed)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    pretrain(
        model,
        tokenizer,
        partial(example, World(options.world)),
        _LENGTHS,
        steps=options.steps,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        seed=options.seed,
    )
    model.save_pretrained(options.out)
    tokenizer.save_pretrained(options.out)


if __name__ == "__main__":
    main()
