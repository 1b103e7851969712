"""Run the preflight on two ranks under torchrun, and write how `train()` ended on each.

Argument: a folder.
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
from trl import GRPOConfig, GRPOTrainer

from helpers.trl_world import length, rows
from prompt_coevo.adapters.trl import attach
from prompt_coevo.errors import HostError
from worlds.pairs.world import base_policy_path

# Nothing listens at port 1.
DEAD = {
    "model": "openai/any",
    "api_base": "http://127.0.0.1:1/v1",
    "api_key": "sk-x",
    "timeout_s": 1000.0,
    "total_timeout_s": 1000.0,
}
DRY = {"reflection": {"function": len}, "preflight": {"dry_run": True}}
RUNS: dict[str, dict[str, Any]] = {
    "dead": {"reflection": DEAD},
    "dry": DRY,
    "all fail": DRY,
    "one fails": DRY,
    "one refuses": DRY,
}


def reward(run: str, rank: int) -> Any:
    """Return a run's reward function, which fails on some ranks or all."""

    def fails(completions: Any, **columns: Any) -> list[float]:
        if run == "all fail" or (run == "one fails" and rank == 1):
            raise RuntimeError(f"the reward of {run} is down")
        if run == "one refuses" and rank == 1:
            raise HostError("the reward refuses to work")
        return length(completions, **columns)

    return fails


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    ended = {}
    for name, settings in RUNS.items():
        print(f"<{name}>", flush=True)
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32),
            reward_funcs=reward(name, int(os.environ["RANK"])),
            args=GRPOConfig(
                output_dir=str(folder / name),
                per_device_train_batch_size=4,
                num_generations=4,
                max_completion_length=16,
                num_train_epochs=2,
                save_strategy="no",
                use_cpu=True,
                bf16=False,
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_list(rows()),
            processing_class=AutoTokenizer.from_pretrained(base_policy_path()),
        )
        attach(trainer, settings)
        try:
            trainer.train()
        except (Exception, SystemExit) as error:
            ended[name] = f"{type(error).__name__}: {error}"
        ended[f"{name} steps"] = str(trainer.state.global_step)
    rank = trainer.accelerator.process_index
    (folder / f"rank{rank}.json").write_text(json.dumps(ended))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
