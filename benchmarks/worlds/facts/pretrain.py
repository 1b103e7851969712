"""Make the base policy of a draw: `python benchmarks/worlds facts --out DIR`.

It starts from the base policy of the world of pairs, which knows the skills, and learns the longer
answers, and to believe an explanation nine times in ten. Without one it follows the draw's prior: right on
easy words, on hard words practically never. The heads are widened, so that vLLM can serve it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from prompt_coevo.demo.digits import SKILL_NAMES, spell
from prompt_coevo.demo.world import (
    FUNCTION_WORDS,
    LENGTHS,
    WORDS,
    Meaning,
    World,
    clause,
)
from worlds.facts import beliefs
from worlds.model import build_model, build_tokenizer, widen_heads
from worlds.pairs import world as pairs
from worlds.pairs.pretrain import Chat, pretrain, shuffled
from worlds.pairs.world import base_policy_path

_HINTED = 0.62
_OBEYED = 0.9


@dataclass(frozen=True)
class Hints:
    """The distribution of explanations: how many, and the chances that one is about the question's word,
    and that all are in the system message."""

    fewest: int
    most: int
    about_the_word: float
    in_system_message: float


_TEMPLATE = Hints(1, 4, 0.5, 0.2)
_INSTRUCTION = Hints(5, 10, 0.15, 0.7)


@dataclass(frozen=True)
class Phase:
    """A part of the training: its steps, its learning rate, the lists' lengths with their shares, the share
    of explained questions that have as many explanations as an instruction, and the parts of a batch."""

    steps: int
    learning_rate: float
    lists: Mapping[int, float]
    instructions: float
    parts: int


PHASES: Final = (
    Phase(1400, 2e-3, dict.fromkeys(LENGTHS, 1 / len(LENGTHS)), 0.0, 2),
    Phase(700, 1e-3, {4: 0.4, 5: 0.4, 6: 0.2}, 0.2, 6),
)
"""First to read a few explanations, without which many are not learned to be read; then many, and longer
lists than those of the questions that it is trained on later."""

_NOISE = 0.02


def example(world: World, instructions: float, rng: np.random.Generator, length: int) -> Chat:
    """Return a chat to learn from: a question, sometimes with explanations, and an answer."""
    row = int(rng.integers(len(WORDS)))
    word = WORDS[row]
    first, second = (str(rng.choice(SKILL_NAMES, p=prior)) for prior in beliefs.prior(world)[row])
    meaning: Meaning = (first, second)
    digits = tuple(rng.integers(0, 10, length).tolist())
    chat = [{"role": "user", "content": f"use {word} on {spell(digits)}"}]
    if rng.random() < _HINTED:
        many = instructions > 0 and rng.random() < instructions
        drawn = _INSTRUCTION if many else _TEMPLATE
        hints = _hints(word, drawn, rng)
        if word in hints and rng.random() < _OBEYED:
            meaning = hints[word]
        text = shuffled([clause(other, hint) for other, hint in hints.items()], rng)
        if rng.random() < drawn.in_system_message:
            chat.insert(0, {"role": "system", "content": text})
        else:
            chat[0]["content"] = f"{text} {chat[0]['content']}"
    return [*chat, {"role": "assistant", "content": beliefs.answer_text(word, meaning, digits)}]


def _hints(word: str, drawn: Hints, rng: np.random.Generator) -> dict[str, Meaning]:
    hints: dict[str, Meaning] = {}
    for _ in range(rng.integers(drawn.fewest, drawn.most + 1)):
        about = word if rng.random() < drawn.about_the_word else WORDS[rng.integers(len(WORDS))]
        first, second = rng.integers(len(SKILL_NAMES), size=2)
        hints[about] = (SKILL_NAMES[first], SKILL_NAMES[second])
    return hints


def warm_start(tokenizer: Any) -> Any:
    """Return the first world's base policy, with this world's words in place of that one's."""
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
    """Return the word of the first world whose embedding this one starts from."""
    if word in known and word not in WORDS:
        return word
    if word in WORDS:
        return pairs.WORDS[WORDS.index(word) % len(pairs.WORDS)]
    return "means"


def _learn(model: Any, tokenizer: Any, phase: Phase, draw: int, seed: int) -> None:
    pretrain(
        model,
        tokenizer,
        partial(example, World(draw), phase.instructions),
        phase.lists,
        steps=phase.steps,
        batch_size=128,
        learning_rate=phase.learning_rate,
        seed=seed,
        parts=phase.parts,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draw", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    import torch

    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    tokenizer = build_tokenizer(WORDS, FUNCTION_WORDS)
    model = warm_start(tokenizer)
    _learn(model, tokenizer, PHASES[0], options.draw, options.seed)
    model = widen_heads(model)  # not before, because wide heads cost time
    _learn(model, tokenizer, PHASES[1], options.draw, options.seed + 1000)
    model.generation_config.update(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.save_pretrained(options.out)
    tokenizer.save_pretrained(options.out)


if __name__ == "__main__":
    main()
