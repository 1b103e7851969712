"""GRPO in plain PyTorch, as one may have it at home. It knows nothing of prompts that learn.

`own_adapter.py` adds them. The model is any causal language model of transformers; a question is a row
`{"id": ..., "prompt": chat, "answer": ...}`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

Question = dict[str, Any]


@dataclass(frozen=True)
class Config:
    group_size: int = 8
    questions_per_round: int = 8
    updates_per_round: int = 2
    temperature: float = 1.0
    max_new_tokens: int = 18
    learning_rate: float = 3e-4
    clip: float = 0.2
    beta: float = 0.0
    """Weight of the distance to the reference policy; at 0 there is none."""
    seed: int = 0


@dataclass
class Row:
    """One rollout: the question, the ids it was asked with, what came of it and what it is worth."""

    question: Question
    group: int
    prompt_ids: list[int]
    completion_ids: list[int] = field(default_factory=list)
    text: str = ""
    reward: float = math.nan
    advantage: float = 0.0


class OwnTrainer:
    """`reward(question, text)` may be None: then nobody can say what the completion is worth."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        dataset: Sequence[Question],
        reward: Callable[[Question, str], float | None],
        config: Config,
    ) -> None:
        torch.manual_seed(config.seed)
        self.model, self.tokenizer, self.dataset = model.train(), tokenizer, dataset
        self.reward, self.config = reward, config
        self.reference = copy.deepcopy(model).eval() if config.beta else None
        self.optimizer = torch.optim.AdamW(model.parameters(), config.learning_rate)
        self.epoch = self.position = self.step = self.total_steps = 0
        self.log: list[dict[str, float]] = []

    def train(self, epochs: int) -> None:
        size = self.config.questions_per_round
        rounds = epochs * math.ceil(len(self.dataset) / size)
        self.total_steps = rounds * self.config.updates_per_round
        while self.epoch < epochs:
            order = self.order_of_epoch()
            while self.position < len(order):
                questions = [self.dataset[n] for n in order[self.position : self.position + size]]
                self.position += size
                rows = self.round(questions)
                self.update(rows)
                self.log.append(self.numbers(rows))
                self.after_round()
            self.epoch, self.position = self.epoch + 1, 0

    def order_of_epoch(self) -> list[int]:
        seeded = torch.Generator().manual_seed(self.config.seed + self.epoch)
        return torch.randperm(len(self.dataset), generator=seeded).tolist()

    def round(self, questions: Sequence[Question]) -> Sequence[Row]:
        """A scored group of rollouts for every question."""
        rows = [
            Row(question, group, self.encode(question["prompt"]))
            for group, question in enumerate(questions)
            for _ in range(self.config.group_size)
        ]
        finished = self.sample(rows, self.config.temperature)
        self.score(finished)
        return finished

    def encode(self, prompt: Any) -> list[int]:
        if isinstance(prompt, str):
            return list(self.tokenizer(prompt)["input_ids"])
        chat = self.tokenizer.apply_chat_template(
            prompt, add_generation_prompt=True, return_dict=True
        )
        return list(chat["input_ids"])

    @torch.no_grad()
    def sample(self, rows: Sequence[Row], temperature: float) -> list[Row]:
        """Complete the rows; they are returned as they finish, so in another order."""
        self.model.eval()
        going, finished = list(rows), []
        while going:
            ids, lengths = padded([row.prompt_ids + row.completion_ids for row in going])
            logits = self.model(input_ids=ids).logits[torch.arange(len(going)), lengths - 1]
            if temperature:
                tokens = (logits / temperature).softmax(-1).multinomial(1)[:, 0]
            else:
                tokens = logits.argmax(-1)
            for row, token in zip(going, tokens.tolist(), strict=True):
                row.completion_ids.append(token)
            finished += [row for row in going if self.is_complete(row)]
            going = [row for row in going if not self.is_complete(row)]
        self.model.train()
        return finished

    def is_complete(self, row: Row) -> bool:
        ended = row.completion_ids[-1] == self.tokenizer.eos_token_id
        return ended or len(row.completion_ids) == self.config.max_new_tokens

    def score(self, rows: Sequence[Row]) -> None:
        for row in rows:
            row.text = self.tokenizer.decode(row.completion_ids, skip_special_tokens=True)
            reward = self.reward(row.question, row.text)
            row.reward = math.nan if reward is None else reward

    def update(self, rows: Sequence[Row]) -> None:
        self.set_advantages(rows)
        with torch.no_grad():
            old, _ = self.log_probs(self.model, rows)
            reference = self.log_probs(self.reference, rows)[0] if self.reference else None
        for _ in range(self.config.updates_per_round):
            self.change_weights(self.loss(rows, old, reference))

    def set_advantages(self, rows: Sequence[Row]) -> None:
        for group in {row.group for row in rows}:
            fit = [row for row in rows if row.group == group and math.isfinite(row.reward)]
            rewards = [row.reward for row in fit]
            for row in fit:
                row.advantage = (row.reward - fmean(rewards)) / (pstdev(rewards) + 1e-4)

    def log_probs(self, model: Any, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        """Log-probs of all tokens but the first, and which of them are the completion's; (B, L-1)."""
        ids, lengths = padded([row.prompt_ids + row.completion_ids for row in rows])
        logits = model(input_ids=ids).logits[:, :-1] / self.config.temperature
        of_tokens = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
        place = torch.arange(1, ids.shape[1])
        starts = torch.tensor([len(row.prompt_ids) for row in rows])
        return of_tokens, (place >= starts[:, None]) & (place < lengths[:, None])

    def loss(self, rows: Sequence[Row], old: Tensor, reference: Tensor | None) -> Tensor:
        new, mask = self.log_probs(self.model, rows)
        advantages = torch.tensor([row.advantage for row in rows])[:, None]
        ratio = (new - old).exp()
        clipped = ratio.clamp(1 - self.config.clip, 1 + self.config.clip)
        gain = torch.min(ratio * advantages, clipped * advantages)
        if reference is not None:
            gain = gain - self.config.beta * ((reference - new).exp() - (reference - new) - 1)
        return -(gain * mask).sum() / mask.sum()

    def change_weights(self, loss: Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.step += 1

    def evaluate(self, dataset: Sequence[Question]) -> float:
        """Mean reward of greedy completions."""
        prompts = [self.evaluation_prompt(question) for question in dataset]
        pairs = zip(dataset, prompts, strict=True)
        rows = [Row(question, 0, self.encode(prompt)) for question, prompt in pairs]
        self.score(self.sample(rows, 0.0))
        return fmean(row.reward for row in rows)

    def evaluation_prompt(self, question: Question) -> Any:
        return question["prompt"]

    def numbers(self, rows: Sequence[Row]) -> dict[str, float]:
        return {"step": self.step, "reward": fmean(row.reward for row in rows)}

    def after_round(self) -> None:
        """For a subclass that saves checkpoints."""

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": torch.get_rng_state(),
            "progress": (self.epoch, self.position, self.step),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        self.epoch, self.position, self.step = state["progress"]

    def save(self, path: Path) -> None:
        torch.save(self.state(), path)

    def load(self, path: Path) -> None:
        self.load_state(torch.load(path, weights_only=False))


def padded(rows: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
    """Ids padded on the right, where a causal model does not see it, and the lengths."""
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    return ids, torch.tensor([len(row) for row in rows])
