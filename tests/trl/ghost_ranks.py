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
from trl import GRPOTrainer

from helpers.trl_ghost import GhostGRPO, give_templates, odd
from helpers.trl_trainers import build_trainer


def main(folder: Path, templates: bool) -> None:
    torch.set_num_threads(1)
    trainer = build_trainer(
        folder,
        GhostGRPO,
        reward_funcs=odd,
        like=GRPOTrainer,
        per_device_train_batch_size=6,  # 12 rows: three groups of four, the second on both ranks
        num_iterations=2,
        beta=0.1,
        learning_rate=1e-4,
        max_completion_length=18,
        max_steps=6,
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
