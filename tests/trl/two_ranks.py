"""Run by torchrun: P2O with groups that span the two ranks. Writes what each rank saw."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.update(CI="1", HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", OMP_NUM_THREADS="1")

import torch
from datasets import Dataset
from helpers.spies import Spy
from helpers.trl_world import WORLD, rows, score
from prompt_coevo.adapters.trl import CoevoCallback
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from prompt_coevo.demo.model import base_policy_path


def know_all(prompt: str) -> str:
    clauses = [f"{word} means {skill} ." for word, skill in WORLD.meaning.items() if word in prompt]
    return f"<template>{' '.join(clauses)}</template>"


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32),
        reward_funcs=score,
        args=GRPOConfig(
            output_dir=str(folder / "out"),
            per_device_train_batch_size=6,  # 12 rows: three groups of four, the second on both ranks
            num_generations=4,
            max_completion_length=18,
            learning_rate=1e-4,
            num_train_epochs=2,
            max_steps=int(sys.argv[2]),
            save_strategy="steps",
            save_steps=3,
            use_cpu=True,
            bf16=False,
            report_to="none",
            logging_steps=1,
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list(rows()),
        processing_class=AutoTokenizer.from_pretrained(base_policy_path()),
    )
    spy = Spy.on(trainer)
    seen: dict[str, list[Any]] = {"rollout_shares": [], "plans": []}
    settings = {
        "question_id_column": "id",
        "p2o": {
            "dev_size": 3,
            "minibatch_size": 3,
            "search_budget": 40,
            "minibatch_temperature": 1.0,
        },
        "reflection": {"function": know_all},
    }
    callback = CoevoCallback(trainer, settings)
    generate = callback._policy._generate
    callback._policy._generate = lambda requests: (
        seen["rollout_shares"].append(len(requests)),
        generate(requests),
    )[1]
    plan = callback._door._plan

    def spy_plan(inputs: Any) -> Any:
        found = plan(inputs)
        seen["plans"].append([(a.question_id, a.group, a.member) for a in found.assignments])
        return found

    callback._door._plan = spy_plan
    trainer.add_callback(callback)
    trainer.train(resume_from_checkpoint=sys.argv[3] if len(sys.argv) > 3 else None)
    engine = callback.engine
    decode = trainer.processing_class.decode
    report = {
        "has_engine": engine is not None,
        "metrics": engine.metrics() if engine else None,
        "trained": [decode(p) for index in range(len(spy.losses)) for p, _ in spy.rows(index)],
        "sampled": [decode(p) for prompts, _ in spy.sampled for p in prompts],
        "history": trainer.state.log_history,
        "weights": float(sum(p.double().sum() for p in trainer.model.parameters())),
        **seen,
    }
    (folder / f"rank{trainer.accelerator.process_index}.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
