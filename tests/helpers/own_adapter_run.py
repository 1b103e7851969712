"""Run the adapter of `docs/examples/own_adapter.py` under the kit's laws and record it.

`Recorder` stands below the adapter in the order of inheritance, so it sees what reaches the trainer, and
nothing above it (a faulty adapter, say) can hide anything from it.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from transformers import AutoTokenizer

from helpers.trl_world import TASKS, rows
from own_adapter import OwnAdapter, PlannedRow
from own_trainer import Config, OwnTrainer, Row, padded
from prompt_coevo import Rollout, RolloutRequest, Settings
from prompt_coevo.testing.adapter import (
    Capability,
    Evaluated,
    Job,
    LogProbs,
    Material,
    Record,
    Sampled,
    Scored,
    Trained,
    fingerprint,
    reward_of,
)
from worlds.pairs.world import base_policy_path

TEMPERATURE = 0.8
_SETTINGS = {
    "temperature": TEMPERATURE,
    "max_new_tokens": 6,
    "learning_rate": 1e-2,
    "beta": 0.05,
}


class TinyModel(torch.nn.Module):
    """A fast causal language model: one recurrent layer, untrained.

    Its weights are large, so that it hears a template; and it ends a completion now and then, so that
    rows do not finish together.
    """

    def __init__(self, vocabulary: int, end: int) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(vocabulary, 24)
        self.layer = torch.nn.GRU(24, 24, batch_first=True)
        self.head = torch.nn.Linear(24, vocabulary)
        drawn = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=drawn) * 0.6)
            self.head.bias[end] += 2

    def forward(self, input_ids: torch.Tensor) -> Any:
        return SimpleNamespace(logits=self.head(self.layer(self.embed(input_ids))[0]))


class Killed(Exception):
    """Raised where the process is killed."""


class Recorder(OwnTrainer):
    """Record the trainer's actions. `count_from_here` is called before training."""

    record: Record
    moment = "train"
    updates, rounds = 0, -1

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.live = self.model

    def count_from_here(self) -> None:
        self.updates = self.step
        self.rounds = self.step // self.config.updates_per_round - 1
        self.optimizer.register_step_post_hook(lambda *_: self._updated())
        self._look()

    def _updated(self) -> None:
        self.updates += 1
        self.record.updates.append(self.updates)
        self._look()

    def _look(self) -> None:
        self.record.weights[self.updates] = weights_of(self.live)
        self.record.greedy[self.updates] = {
            row["id"]: self._greedy(row["prompt"]) for row in self.originals
        }

    def _greedy(self, prompt: Any) -> str:
        ids, first = self.encode(prompt), len(self.encode(prompt))
        with torch.no_grad():
            while len(ids) - first < self.config.max_new_tokens:
                ids.append(int(self.live(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
                if ids[-1] == self.tokenizer.eos_token_id:
                    break
        return str(self.tokenizer.decode(ids[first:], skip_special_tokens=True))

    def sample(self, rows: Sequence[Row], temperature: float) -> list[Row]:
        number = self.updates
        if self.moment == "train":
            self.rounds += 1
            number = self.rounds
        prompts = [list(row.prompt_ids) for row in rows]
        finished = super().sample(rows, temperature)
        for row, prompt_ids in zip(rows, prompts, strict=True):
            ids = list(row.completion_ids)
            text = self.tokenizer.decode(ids, skip_special_tokens=True)
            self.record.sampled.append(
                Sampled(self.moment, number, prompt_ids, ids, text, temperature)
            )
        if self.moment == "evaluate":
            self.record.evaluated.append(Evaluated(number, prompts))
        return finished

    def update(self, rows: Sequence[Row]) -> None:
        self.at_sampling = copy.deepcopy(self.live)
        super().update(rows)

    def loss(self, rows: Sequence[Row], old: Any, reference: Any) -> Any:
        with torch.no_grad():
            new, mask = self.log_probs(self.model, rows)
        used = {"new": (new, self.live), "old": (old, self.at_sampling)}
        if reference is not None:
            used["reference"] = (reference, self.reference)
        prompts = [row.assignment.rollout_prompt(self.original(row.assignment)) for row in rows]
        sampled = [
            self.encode(prompt) + row.completion_ids
            for prompt, row in zip(prompts, rows, strict=True)
        ]
        trained = [row.prompt_ids + row.completion_ids for row in rows]
        passes = {
            name: (values, self._forward(model, trained), self._forward(model, sampled))
            for name, (values, model) in used.items()
        }
        for number in range(len(rows)):
            ids, shift = trained[number], len(sampled[number]) - len(trained[number])
            positions = (mask[number].nonzero()[:, 0] + 1).tolist()
            places = [place for place in positions if place < len(ids)]
            placed = [max(1, place + shift) for place in places]
            log_probs = {
                name: LogProbs(
                    used=[float(values[number][place - 1]) for place in places],
                    forward=[float(forward[number][place - 1]) for place in places],
                    placed=[float(elsewhere[number][place - 1]) for place in placed],
                )
                for name, (values, forward, elsewhere) in passes.items()
            }
            self.record.trained.append(Trained(self.updates + 1, ids, positions, log_probs))
        return super().loss(rows, old, reference)

    def _forward(self, model: Any, rows: list[list[int]]) -> Any:
        """Return the log-prob of every token but the first, (B, L-1)."""
        ids, _ = padded(rows)
        with torch.no_grad():
            logits = model(input_ids=ids).logits[:, :-1] / self.config.temperature
        return logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]

    def original(self, assignment: Any) -> Any:
        return next(row["prompt"] for row in self.originals if row["id"] == assignment.question_id)


def recorded(
    adapter: type[OwnAdapter], job: Job, folder: Path, written: Record
) -> type[OwnAdapter]:
    """Build the adapter on a recorder, with the job's ways of saving, delivering and ending on top."""

    class Recorded(adapter, Recorder):  # type: ignore[misc, valid-type]
        originals = copy.deepcopy(list(job.rows))
        record = written

        def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
            before, moment = self.host_state(), self.moment
            self.moment = "policy"
            try:
                return super().rollout(requests)
            finally:
                self.moment = moment
                self.record.around_policy.append((before, self.host_state()))

        def host_state(self) -> dict[str, str]:
            return {
                "random": fingerprint(
                    [torch.get_rng_state().tolist(), list(map(repr, random.getstate()))]
                ),
                "weights": weights_of(self.live),
                "mode": str(self.live.training),
                "metrics": fingerprint(self.log),
                "dataset": fingerprint(list(self.dataset)),
            }

        def evaluate(self, dataset: Sequence[dict[str, Any]]) -> float:
            self.moment = "evaluate"
            try:
                return super().evaluate(dataset)
            finally:
                self.moment = "train"

        held: tuple[PlannedRow, ...] = ()

        def observe(self, rows: Sequence[PlannedRow]) -> None:
            if job.delivery == "in parts":
                rows = sorted(rows, key=lambda row: fingerprint(row.prompt_ids))
                super().observe(rows[: len(rows) // 3])
                super().observe(rows[len(rows) // 3 :])
            elif job.delivery == "late":
                before, self.held = self.held, tuple(rows)
                super().observe(before)
            else:
                super().observe(rows)

        def order_of_epoch(self) -> list[int]:
            if self.epoch > len(self.record.epochs):
                self.record.epochs.append(self.updates)
            return super().order_of_epoch()

        def after_round(self) -> None:
            if job.saves:
                path = folder / f"after-{self.step}.pt"
                self.save(path)
                self.record.checkpoints[self.step] = path
            if job.stop_after == self.step:
                raise Killed
            if self.step == self.total_steps and self.held:
                adapter.observe(self, self.held)
            if job.evaluates:
                self.evaluate(self.dataset)

    return Recorded


class OwnAdapterUnderTest:
    """Implement `prompt_coevo.testing.adapter.AdapterUnderTest` for the example or a variation of it."""

    lacks: Mapping[Capability, str] = {"ranks": "the trainer runs in one process"}

    def __init__(self, adapter: type[OwnAdapter] = OwnAdapter, **config: Any) -> None:
        self._adapter, self._config = adapter, config
        self._tokenizer = AutoTokenizer.from_pretrained(base_policy_path())
        self.material = Material(
            rows(TASKS[:4]),
            texts=("please note .", "always remember .", "now carefully ."),
            long_text=" ".join(["dax means reverse . wug means rotate ."] * 3),
        )

    def encode(self, prompt: Any) -> list[int]:
        chat = self._tokenizer.apply_chat_template(
            prompt, add_generation_prompt=True, return_dict=True
        )
        return list(chat["input_ids"])

    def run(self, job: Job, folder: Path) -> Record:
        record = Record([], temperature=TEMPERATURE)
        scores = recorded(self._adapter, job, folder, record)

        def reward(question: dict[str, Any], text: str) -> float | None:
            random.random()  # as a reward function with a random choice would
            if job.failing != "nowhere" and trainer.moment == "policy":
                raise RuntimeError("the reward is down")
            value = reward_of(job, question["id"], text)
            record.scored.append(Scored(question["id"], question["prompt"], text, value))
            return value

        random.seed(0)
        dataset = copy.deepcopy(list(job.rows))
        trainer = scores(
            TinyModel(len(self._tokenizer), self._tokenizer.eos_token_id),
            self._tokenizer,
            dataset,
            reward,
            Config(
                group_size=job.group_size,
                questions_per_round=max(1, len(dataset) // 2),
                **(_SETTINGS | self._config),
            ),
            settings=Settings(**job.settings),
            output_dir=folder,
        )
        if job.resume_from is not None:
            trainer.load(job.resume_from)
        trainer.count_from_here()
        record.epochs += [0] * trainer.epoch  # of the run before
        if job.evaluates:
            trainer.evaluate(dataset)
        try:
            trainer.train(job.epochs)
        except Killed:
            pass
        else:
            record.epochs.append(trainer.updates)
        record.dataset, record.logged = dataset, trainer.log
        journal = folder / "coevo" / "events.jsonl"
        record.journal = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
        return record

    def edit_state(self, checkpoint: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
        saved = torch.load(checkpoint, weights_only=False)
        saved["coevo"] = edit(saved["coevo"])
        torch.save(saved, checkpoint)


def weights_of(model: Any) -> str:
    """Return a fingerprint of a model's weights."""
    parts = [parameter.detach().numpy().tobytes() for parameter in model.parameters()]
    return fingerprint(b"".join(parts))
