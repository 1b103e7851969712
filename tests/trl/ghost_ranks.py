"""Train on two ranks with a sampler that does not read its prompts; write a checksum of the weights.

Arguments: the folder, and 1 for templates or 0 without.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

os.environ.update(CI="1", HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", OMP_NUM_THREADS="1")

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig

from helpers.trl_ghost import GhostGRPO, give_templates, odd
from helpers.trl_world import rows
from worlds.pairs.world import base_policy_path


def main(folder: Path, templates: bool) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    trainer = GhostGRPO(
        model=AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32),
        reward_funcs=odd,
        args=GRPOConfig(
            output_dir=str(folder / "out"),
            per_device_train_batch_size=6,  # 12 rows: three groups of four, the second on both ranks
            num_generations=4,
            num_iterations=2,
            beta=0.1,
            max_completion_length=18,
            learning_rate=1e-4,
            max_steps=6,
            save_strategy="no",
            use_cpu=True,
            bf16=False,
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list(rows()),
        processing_class=AutoTokenizer.from_pretrained(base_policy_path()),
    )
    rank = trainer.accelerator.process_index
    under = give_templates(trainer) if templates else set()
    trainer.train()
    assert bool(under) == (templates and rank == 0)
    whole = hashlib.sha256()
    for one in trainer.model.parameters():
        whole.update(one.detach().numpy().tobytes())
    (folder / f"rank{rank}.txt").write_text(whole.hexdigest())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "1")
