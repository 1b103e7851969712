"""Request rollouts after every update under torchrun; most of them fail on some rank.

Argument: a folder, into which every rank writes what it saw with either trainer. The reward function
and the sampler raise in these rollouts alone, once for every step of `FAILS`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.update(CI="1", HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", OMP_NUM_THREADS="1")

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from helpers.trl_world import length, rows
from prompt_coevo import hookimpl
from prompt_coevo.adapters.trl import CoevoCallback
from prompt_coevo.types import Assignment, RolloutRequest, Sampling
from worlds.pairs.world import base_policy_path

FAILS = {1: ("the reward", 1), 2: ("the sampler", 1), 3: ("the sampler", 0), 4: ("the reward", 0)}
STEPS = 5
CLASSES = {"GRPO": (GRPOTrainer, GRPOConfig), "RLOO": (RLOOTrainer, RLOOConfig)}


class Asks:
    """Request eight rollouts after every update, in two calls of the trainer on every rank."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @hookimpl
    def coevo_step_end(self, policy: Any) -> None:
        requests = [RolloutRequest(Assignment(f"q{n}"), Sampling(0.0)) for n in range(8)]
        try:
            found = policy.rollout(requests)
        except Exception as error:
            self.heard.append(f"{type(error).__name__}: {error}")
        else:
            self.heard.append(f"{sum(one.fit for one in found)} rollouts")


def main(folder: Path, kind: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    trainer_class, config = CLASSES[kind]
    trainer: Any = None

    def fails(what: str) -> bool:
        searching = trainer is not None and callback.policy.active is not None
        rank = trainer.accelerator.process_index if searching else None
        return searching and FAILS.get(trainer.state.global_step) == (what, rank)

    def reward(completions: Any, **columns: Any) -> list[float]:
        if fails("the reward"):
            raise RuntimeError("the reward is down")
        return length(completions, **columns)

    model = AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32)
    generate = model.generate

    def sampler(*args: Any, **kwargs: Any) -> Any:
        if fails("the sampler"):
            raise RuntimeError("the sampler is down")
        return generate(*args, **kwargs)

    model.generate = sampler
    trainer = trainer_class(
        model=model,
        reward_funcs=reward,
        args=config(
            output_dir=str(folder / "out"),
            per_device_train_batch_size=2,
            num_generations=2,
            max_completion_length=8,
            learning_rate=1e-3,
            max_steps=STEPS,
            save_strategy="no",
            use_cpu=True,
            bf16=False,
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list(rows()),
        processing_class=AutoTokenizer.from_pretrained(base_policy_path()),
    )
    plugin = Asks()
    settings = {"algorithms": (), "question_id_column": "id"}
    callback = CoevoCallback(trainer, settings, plugins={"asks": plugin})
    trainer.add_callback(callback)
    trainer.train()
    report = {
        "steps": trainer.state.global_step,
        "heard": plugin.heard,
        "weights": float(sum(p.double().sum() for p in trainer.model.parameters())),
    }
    rank = trainer.accelerator.process_index
    (folder / f"{kind}{rank}.json").write_text(json.dumps(report))


if __name__ == "__main__":
    for one in CLASSES:
        main(Path(sys.argv[1]), one)
