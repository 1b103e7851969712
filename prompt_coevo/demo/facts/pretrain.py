"""Makes the base policy of a draw: `python -m prompt_coevo.demo.facts.pretrain --out DIR`.

It goes on from the first world's base policy, which knows the skills, and learns the longer answers,
and to believe an explanation nine times in ten. Without one it follows the draw's prior: right on easy
words, on hard words practically never. The heads are widened at the end, so that vLLM can serve it.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from prompt_coevo.demo import world as first_world
from prompt_coevo.demo.facts.world import (
    FUNCTION_WORDS,
    LENGTHS,
    WORDS,
    Meaning,
    World,
    answer_text,
    clause,
)
from prompt_coevo.demo.model import base_policy_path, build_model, build_tokenizer, widen_heads
from prompt_coevo.demo.pretrain import Chat, pretrain, shuffled
from prompt_coevo.demo.world import SKILL_NAMES, spell

_HINTED = 0.62
_OBEYED = 0.9
_ABOUT_THE_WORD = 0.5
_MOST_CLAUSES = 4
_IN_SYSTEM_MESSAGE = 0.2
_NOISE = 0.02


def example(world: World, rng: np.random.Generator, length: int) -> Chat:
    """One chat to learn from: a question, sometimes with explanations, and an answer."""
    words = world.vocabulary
    row = int(rng.integers(len(words)))
    word = words[row]
    meaning: Meaning = tuple(str(rng.choice(SKILL_NAMES, p=prior)) for prior in world.prior[row])
    digits = tuple(rng.integers(0, 10, length).tolist())
    chat = [{"role": "user", "content": f"use {word} on {spell(digits)}"}]
    if rng.random() < _HINTED:
        hints = _hints(word, world, rng)
        if word in hints and rng.random() < _OBEYED:
            meaning = hints[word]
        text = shuffled([clause(other, hint) for other, hint in hints.items()], rng)
        if rng.random() < _IN_SYSTEM_MESSAGE:
            chat.insert(0, {"role": "system", "content": text})
        else:
            chat[0]["content"] = f"{text} {chat[0]['content']}"
    return [*chat, {"role": "assistant", "content": answer_text(word, meaning, digits)}]


def _hints(word: str, world: World, rng: np.random.Generator) -> dict[str, Meaning]:
    hints: dict[str, Meaning] = {}
    words = world.vocabulary
    for _ in range(rng.integers(1, _MOST_CLAUSES + 1)):
        about = word if rng.random() < _ABOUT_THE_WORD else words[rng.integers(len(words))]
        skills = rng.integers(len(SKILL_NAMES), size=world.size.skills)
        hints[about] = tuple(SKILL_NAMES[skill] for skill in skills)
    return hints


def warm_start(tokenizer: Any) -> Any:
    """The first world's base policy, with this world's words in place of that one's."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = base_policy_path()
    known = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).state_dict()
    numbers = AutoTokenizer.from_pretrained(folder).get_vocab()
    words = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    rows = torch.tensor([numbers[_like(word, numbers)] for word in words])
    model = build_model(tokenizer)
    weights = model.state_dict()
    for name, weight in weights.items():
        if weight.shape == known[name].shape:
            weight.copy_(known[name])
        else:  # a row for every word; words that begin alike must come apart
            weight.copy_(known[name][rows] + _NOISE * torch.randn_like(weight))
    return model


def _like(word: str, known: dict[str, int]) -> str:
    """The word of the first world that this one begins as."""
    if word in known and word not in WORDS:
        return word
    if word in WORDS:
        return first_world.WORDS[WORDS.index(word) % len(first_world.WORDS)]
    return "means"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draw", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=1400)
    options = parser.parse_args()
    import torch

    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    tokenizer = build_tokenizer(WORDS, FUNCTION_WORDS)
    model = warm_start(tokenizer)
    pretrain(
        model,
        tokenizer,
        partial(example, World(options.draw)),
        dict.fromkeys(LENGTHS, 1 / len(LENGTHS)),
        steps=options.steps,
        batch_size=128,
        learning_rate=2e-3,
        seed=options.seed,
        parts=2,
    )
    model = widen_heads(model)
    model.generation_config.update(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.save_pretrained(options.out)
    tokenizer.save_pretrained(options.out)


if __name__ == "__main__":
    main()
