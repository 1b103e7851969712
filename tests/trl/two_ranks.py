"""Train on groups that span two ranks under torchrun, and write what each rank saw.

Arguments: the folder, the steps, and a checkpoint to resume from.
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

from helpers.inspo_world import BestSoFar, settings
from helpers.spies import Spy, unpadded
from helpers.trl_world import TASKS, FixedTemplates, length, right_hint, rows
from prompt_coevo.adapters.trl import CoevoCallback
from worlds.pairs.world import base_policy_path

# Half of every group has a template.
HINTS = FixedTemplates({f"q{n}": [right_hint(task), ""] for n, task in enumerate(TASKS)})


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32),
        reward_funcs=length,
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
            eval_strategy="steps",
            eval_steps=1,
            per_device_eval_batch_size=4,
        ),
        train_dataset=Dataset.from_list(rows()),
        eval_dataset=Dataset.from_list(rows(TASKS[:2])),
        processing_class=AutoTokenizer.from_pretrained(base_policy_path()),
    )
    spy = Spy.on(trainer)
    seen: dict[str, list[Any]] = {"rollout_shares": [], "plans": [], "instructions": []}
    callback = CoevoCallback(trainer, settings(inspo={"window": 1}), plugins={"hints": HINTS})
    generate = callback.policy._generate
    callback.policy._generate = lambda requests: (
        seen["rollout_shares"].append(len(requests)),
        generate(requests),
    )[1]
    plan = callback._adapter._engine.plan

    def spy_plan(*arguments: Any) -> Any:
        found = plan(*arguments)
        seen["plans"].append([(a.question_id, a.group, a.member) for a in found.mine])
        seen["instructions"].append(
            [a.instruction.text for a in found.mine if a.instruction is not None]
        )
        return found

    callback._adapter._engine.plan = spy_plan
    trainer.add_callback(callback)
    best = BestSoFar(callback)
    if callback.engine is not None:
        trainer.add_callback(best)
    trainer.train(resume_from_checkpoint=sys.argv[3] if len(sys.argv) > 3 else None)
    engine = callback.engine
    decode = trainer.processing_class.decode
    report = {
        "state": engine.state_dict() if engine else None,
        "trained": [
            decode(p) for loss in spy.losses if loss["training"] for p, _ in unpadded(loss)
        ],
        "evaluated": [
            [decode(p) for p, _ in unpadded(loss)] for loss in spy.losses if not loss["training"]
        ],
        "best": best.texts if engine else None,
        "sampled": [decode(p) for prompts, _ in spy.sampled for p in prompts],
        "weights": float(sum(p.double().sum() for p in trainer.model.parameters())),
        **seen,
    }
    (folder / f"rank{trainer.accelerator.process_index}.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
