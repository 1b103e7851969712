"""Check the base policy of the world of facts: what it knows, and that it reads explanations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from prompt_coevo.demo.digits import Digits
from prompt_coevo.demo.evaluate import rewards, undisturbed
from prompt_coevo.demo.splits import held_out_tasks
from prompt_coevo.demo.world import WORDS, Task, World, base_path, clause, reward
from worlds.model import widen_heads
from worlds.pairs.world import base_policy_path

WORLD = World(0)
BASE = base_path(WORLD)
TASKS = held_out_tasks(WORLD)
HARD = [task for task in TASKS if task.kind == "hard"]
NO_HINT = 1 / 50
"""Lists on which a wrong meaning happens to give the right answer."""


@dataclass(frozen=True)
class Explained:
    """A question that follows explanations."""

    task: Task
    words: tuple[str, ...]

    @property
    def question(self) -> str:
        clauses = [clause(word, WORLD.meaning[word]) for word in self.words]
        return f"{' '.join(clauses)} {self.task.question}"

    @property
    def answer(self) -> Digits:
        return self.task.answer


@pytest.fixture(scope="module")
def accuracy() -> Any:
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(BASE, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(BASE)

    def measure(tasks: Any, temperature: float = 0.0, instruction: str | None = None) -> float:
        with undisturbed(model):
            found = rewards(model, tokenizer, tasks, temperature, instruction, grade=reward)
        return float(found.mean())

    return measure


def test_no_hard_word_is_known(accuracy: Any) -> None:
    assert accuracy(HARD) < NO_HINT
    assert accuracy(HARD, temperature=1.0) < NO_HINT


def test_easy_words_are_known_and_medium_ones_now_and_then(accuracy: Any) -> None:
    easy, medium = ([task for task in TASKS if task.kind == kind] for kind in ("easy", "medium"))
    assert accuracy(easy) > 0.95
    assert accuracy(medium) < NO_HINT  # a trap is likelier
    assert 0.3 < accuracy(easy * 4, temperature=1.0) < 0.6
    assert 0.02 < accuracy(medium * 8, temperature=1.0) < 0.1


def test_the_right_explanation_is_understood(accuracy: Any) -> None:
    assert accuracy([Explained(task, (task.word,)) for task in HARD]) > 0.98


def test_it_is_found_among_others(accuracy: Any) -> None:
    rng = np.random.default_rng(0)
    asked = []
    for task in HARD:
        others = rng.choice([word for word in WORDS if word != task.word], 3, replace=False)
        words = rng.permutation([task.word, *others]).tolist()
        asked.append(Explained(task, tuple(words)))
    assert accuracy(asked) > 0.95
    assert 0.7 < accuracy(asked, temperature=1.0) < 0.95  # nine times in ten it is believed


def test_an_explanation_of_another_word_says_nothing(accuracy: Any) -> None:
    asked = [Explained(task, (WORDS[WORDS.index(task.word) - 1],)) for task in HARD]
    assert accuracy(asked) < NO_HINT


def test_the_heads_are_as_wide_as_servers_want_them() -> None:
    model = AutoModelForCausalLM.from_pretrained(BASE, dtype=torch.float32)
    assert model.config.head_dim == 32


def test_wider_heads_compute_the_same() -> None:
    narrow = AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32).eval()
    wide = widen_heads(narrow).eval()
    assert wide.config.head_dim == 2 * narrow.config.head_dim
    ids = torch.randint(
        0, narrow.config.vocab_size, (4, 60), generator=torch.Generator().manual_seed(0)
    )
    with torch.no_grad():
        torch.testing.assert_close(wide(ids).logits, narrow(ids).logits, rtol=1e-4, atol=1e-4)
