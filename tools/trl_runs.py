"""Run the real GRPOTrainer in small on the demo's base policy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ.update(CI="1", HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", OMP_NUM_THREADS="1")

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from helpers.base_policy import base_policy_path
from helpers.inspo_world import INSPO
from helpers.spies import Spy
from helpers.trl_world import rows, score
from helpers.verl_world import teach
from prompt_coevo.adapters.trl import CoevoCallback

# Above every reward, tau makes all questions hard, so that every epoch ends with a search.
P2O = {
    "overspend": "never",
    "tau": 2.0,
    "dev_size": 3,
    "minibatch_size": 3,
    "search_budget": 60,
}
RUNS: dict[str, dict[str, Any]] = {
    "trl-p2o": {"algorithms": "p2o", "p2o": P2O},
    "trl-p2o-resumed": {"algorithms": "p2o", "p2o": P2O},
    "trl-both": {"algorithms": "inspo,p2o", "p2o": P2O, "inspo": {**INSPO, "evolve_every": 3}},
}


def record(name: str, folder: Path, seed: int) -> dict[str, list[Any]]:
    """Train three epochs of four steps, the last one twice if the run is resumed; record metrics, and the
    rows (prompt ids, completion ids) that the loss got."""
    torch.set_num_threads(1)
    model = {"function": lambda text: teach({"messages": [{"content": text}]})}
    settings = {**RUNS[name], "seed": seed, "question_id_column": "id", "reflection": model}
    metrics: list[Any] = []
    trained: list[Any] = []
    for checkpoint in (None, str(folder / "checkpoint-8")) if "resumed" in name else (None,):
        trainer = make_trainer(folder)
        spy = Spy.on(trainer)
        trainer.add_callback(CoevoCallback(trainer, settings))
        trainer.train(resume_from_checkpoint=checkpoint)
        metrics += [
            {k: v for k, v in entry.items() if k.startswith(("coevo/", "loss", "reward"))}
            for entry in trainer.state.log_history
        ]
        trained += [spy.rows(number) for number in range(len(spy.losses))]
    return {"metrics": metrics, "trained": trained}


def make_trainer(folder: Path) -> Any:
    torch.manual_seed(0)
    batch = {"per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 16}
    cpu = {"use_cpu": True, "bf16": False, "report_to": "none", "disable_tqdm": True}
    moments = {"num_train_epochs": 3, "save_strategy": "steps", "save_steps": 2, "logging_steps": 1}
    arguments = {**batch, **cpu, **moments, "learning_rate": 1e-4, "beta": 0.0}
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32),
        reward_funcs=score,
        args=GRPOConfig(output_dir=str(folder), **arguments),
        train_dataset=Dataset.from_list(rows()),
        processing_class=AutoTokenizer.from_pretrained(base_policy_path()),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer
