"""Run by torchrun: groups that span the two ranks. Writes what each rank saw.

Arguments: the folder, the steps, the algorithm (p2o or inspo), and a checkpoint to resume from.
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

from helpers.inspo_world import BestSoFar
from helpers.inspo_world import settings as inspo_settings
from helpers.spies import Spy, unpadded
from helpers.trl_world import TASKS, WORLD, length, rows, score
from prompt_coevo.adapters.trl import CoevoCallback
from prompt_coevo.demo.model import base_policy_path


def know_all(prompt: str) -> str:
    clauses = [f"{word} means {skill} ." for word, skill in WORLD.meaning.items() if word in prompt]
    return f"<template>{' '.join(clauses)}</template>"


P2O = {
    "question_id_column": "id",
    "p2o": {
        "dev_size": 3,
        "minibatch_size": 3,
        "search_budget": 40,
        "minibatch_temperature": 1.0,
    },
    "reflection": {"function": know_all},
}
EVALUATION = {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 4}


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    inspo = sys.argv[3] == "inspo"
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32),
        reward_funcs=length if inspo else score,
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
            **(EVALUATION if inspo else {}),
        ),
        train_dataset=Dataset.from_list(rows()),
        eval_dataset=Dataset.from_list(rows(TASKS[:2])) if inspo else None,
        processing_class=AutoTokenizer.from_pretrained(base_policy_path()),
    )
    spy = Spy.on(trainer)
    seen: dict[str, list[Any]] = {"rollout_shares": [], "plans": [], "instructions": []}
    callback = CoevoCallback(trainer, inspo_settings(inspo={"window": 1}) if inspo else P2O)
    generate = callback._policy._generate
    callback._policy._generate = lambda requests: (
        seen["rollout_shares"].append(len(requests)),
        generate(requests),
    )[1]
    plan = callback._door._engine.plan

    def spy_plan(*arguments: Any) -> Any:
        found = plan(*arguments)
        seen["plans"].append([(a.question_id, a.group, a.member) for a in found.mine])
        seen["instructions"].append(
            [a.instruction.text for a in found.mine if a.instruction is not None]
        )
        return found

    callback._door._engine.plan = spy_plan
    trainer.add_callback(callback)
    best = BestSoFar(callback)
    if inspo and callback.engine is not None:
        trainer.add_callback(best)
    trainer.train(resume_from_checkpoint=sys.argv[4] if len(sys.argv) > 4 else None)
    engine = callback.engine
    decode = trainer.processing_class.decode
    report = {
        "metrics": engine.metrics() if engine else None,
        "trained": [
            decode(p) for loss in spy.losses if loss["training"] for p, _ in unpadded(loss)
        ],
        "evaluated": [
            [decode(p) for p, _ in unpadded(loss)] for loss in spy.losses if not loss["training"]
        ],
        "best": best.texts if engine else None,
        "sampled": [decode(p) for prompts, _ in spy.sampled for p in prompts],
        "history": trainer.state.log_history,
        "weights": float(sum(p.double().sum() for p in trainer.model.parameters())),
        **seen,
    }
    (folder / f"rank{trainer.accelerator.process_index}.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
