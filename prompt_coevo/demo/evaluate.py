"""Accuracy of a policy without any template, under its best instruction if it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from prompt_coevo.demo.digits import MAX_COMPLETION, Asked, chat, spell
from prompt_coevo.tokens import Tokenizer

_ROWS_AT_ONCE = 512


class Model(Protocol):
    """The parts of a transformers model that we use."""

    training: bool

    @property
    def device(self) -> torch.device: ...

    def eval(self) -> Model: ...

    def train(self, mode: bool) -> Model: ...

    def generate(self, **options: torch.Tensor | float | None) -> torch.Tensor: ...


@contextmanager
def undisturbed(model: Model) -> Iterator[None]:
    """Use evaluation mode and a fixed random state inside the context; restore both afterwards."""
    was_training = model.training
    model.eval()
    on_gpu = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices=on_gpu), torch.no_grad():
        torch.manual_seed(0)
        yield
    model.train(was_training)


def rewards(
    model: Model,
    tokenizer: Tokenizer,
    tasks: Sequence[Asked],
    temperature: float = 0.0,
    instruction: str | None = None,
    *,
    grade: Callable[[str, str], float],
    max_completion: int = MAX_COMPLETION,
) -> npt.NDArray[np.float64]:
    """Return the reward of one answer per question; temperature 0 is greedy.

    `grade` is the world's reward of a completion, given the right answer.
    """
    texts = completions(
        model,
        tokenizer,
        [chat(task.question, instruction) for task in tasks],
        _ROWS_AT_ONCE,
        do_sample=temperature > 0,
        temperature=temperature or None,
        max_new_tokens=max_completion,
    )
    pairs = zip(texts, tasks, strict=True)
    return np.array([grade(text, spell(task.answer)) for text, task in pairs])


def completions(
    model: Model,
    tokenizer: Tokenizer,
    chats: Sequence[list[dict[str, str]]],
    at_once: int,
    **generation: float | None,
) -> Iterator[str]:
    """Generate for `at_once` conversations at a time and yield the completions in order.

    `generation` goes to transformers' `generate`; with `num_return_sequences` the completions of one
    conversation follow each other.
    """
    for first in range(0, len(chats), at_once):
        batch = tokenizer.apply_chat_template(
            list(chats[first : first + at_once]),
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            padding=True,
        ).to(model.device)
        output = model.generate(**batch, **generation)
        new = output[:, batch["input_ids"].shape[1] :]
        yield from tokenizer.batch_decode(new, skip_special_tokens=True)
