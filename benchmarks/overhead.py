"""Measure what the engine and the adapter for TRL add to a training step, next to the bare trainer.

    python benchmarks/overhead.py [--json FILE]
    python benchmarks/overhead.py --model FOLDER --steps 2 --turns 2 [--json FILE]

Three GRPOTrainers on the demo's policy, 512 rollouts a step, take turns: one bare, one with a callback
that has nothing to place, one whose callback gives every second question templates and distils them. All
questions are new, as in a first epoch, and there are no extra rollouts. Reported are the steps' median
times, and, measured inside the last one, the time spent in our code around generation and rewards and at
a step's end: that is exact where the difference of two noisy medians is not. Tokenising the questions a
second time, without their templates, is part of it and also counted apart. (Steps with templates take
longer also because their prompts are longer.)

With `--model` the policy is a language model, such as `prompt-coevo smollm2` makes, and a step has 32
rollouts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tiny_trainer import build
from transformers import PrinterCallback, TrainerCallback

from prompt_coevo import hookimpl
from prompt_coevo.adapters.trl import CoevoCallback, attach
from prompt_coevo.demo.job import Job
from prompt_coevo.demo.unnamed.arms import ARMS, ROLLOUTS_PER_STEP
from prompt_coevo.demo.unnamed.tasks import Questions
from prompt_coevo.demo.unnamed.train import build_trainer
from prompt_coevo.types import Candidate, MemberPlan

ROLLOUTS, GROUP = 512, 8
WRAPPED = ("_generate_and_score_completions", "_generate", "_calculate_rewards")


class HalfTemplated:
    """Give the rollouts of every second question two templates in turn."""

    templates = (Candidate("dax means reverse .", "template"), Candidate("note .", "template"))

    @hookimpl
    def coevo_plan_group(self, question_id: str, group_size: int) -> Any:
        if int(question_id, 16) % 2:
            return None
        return [MemberPlan(template=self.templates[member % 2]) for member in range(group_size)]


class Clock(TrainerCallback):
    """Record wall seconds of every step."""

    def __init__(self) -> None:
        self.wall: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._started = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.wall.append(time.perf_counter() - self._started)


class Stopwatch:
    """Time our code: in the wrapped methods without the trainer's own, and in the callback."""

    def __init__(self) -> None:
        self.outside = self.inside = self.tokenising = self.callback = 0.0

    def around(self, method: Any, name: str) -> Any:
        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                setattr(self, name, getattr(self, name) + time.perf_counter() - started)

        return timed

    @property
    def ours(self) -> float:
        return self.outside - self.inside + self.callback


def attach_timed(trainer: Any, watch: Stopwatch) -> None:
    """Attach the callback, with stopwatches below and above the methods that it wraps."""
    for name in WRAPPED:
        setattr(trainer, name, watch.around(getattr(trainer, name), "inside"))
    plugins = {"templates": HalfTemplated()}
    callback = CoevoCallback(trainer, {"algorithms": ()}, plugins=plugins)
    callback._adapter.open()
    callback._is_open = True
    for name in WRAPPED:
        setattr(trainer, name, watch.around(getattr(trainer, name), "outside"))
    adapter = callback._adapter
    exchange = adapter._exchange
    exchange.tokenize = watch.around(exchange.tokenize, "tokenising")  # type: ignore[method-assign]
    callback.on_step_end = watch.around(callback.on_step_end, "callback")  # type: ignore[method-assign]
    trainer.add_callback(callback)


def build_tiny(folder: str, steps: int) -> Any:
    """Build the bare trainer on the demo's policy."""
    questions = steps * ROLLOUTS // GROUP
    return build(folder, questions, ROLLOUTS, GROUP, steps, logging_steps=1)


def build_language(model: Path, folder: str, steps: int) -> Any:
    """Build the bare trainer of the benchmark with a language model."""
    job = Job("grpo", ARMS["grpo"], 0, Path(folder), base=model, budget=steps * ROLLOUTS_PER_STEP)
    trainer = build_trainer(job, Questions.unnamed(0))
    trainer.remove_callback(PrinterCallback)
    return trainer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--model", type=Path, help="a language model's folder")
    parser.add_argument("--steps", type=int, default=6, help="steps per turn")
    parser.add_argument("--turns", type=int, default=4)
    options = parser.parse_args()
    torch.set_num_threads(1)
    clocks = {"bare": Clock(), "idle": Clock(), "templates": Clock()}
    watch = Stopwatch()
    built = partial(build_language, options.model) if options.model else build_tiny
    for _ in range(options.turns):
        for name, clock in clocks.items():
            with tempfile.TemporaryDirectory() as folder:
                trainer = built(folder, options.steps)
                if name == "idle":
                    attach(trainer, {"algorithms": ()})
                elif name == "templates":
                    attach_timed(trainer, watch)
                trainer.add_callback(clock)
                trainer.train()
    steps = options.turns * options.steps
    step_ms = {name: 1e3 * statistics.median(clock.wall) for name, clock in clocks.items()}
    ours_ms, tokenising_ms = 1e3 * watch.ours / steps, 1e3 * watch.tokenising / steps
    result = {
        "rollouts_per_step": ROLLOUTS_PER_STEP if options.model else ROLLOUTS,
        "steps_each": steps,
        "step_bare_ms": step_ms["bare"],
        "step_with_idle_callback_ms": step_ms["idle"],
        "step_with_templates_ms": step_ms["templates"],
        "ours_ms": ours_ms,
        "ours_percent_of_bare_step": 100 * ours_ms / step_ms["bare"],
        "of_it_tokenising_ms": tokenising_ms,
    }
    for name, value in result.items():
        print(f"{name:42} {value:10.2f}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
