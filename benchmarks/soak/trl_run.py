"""Run one attempt under TRL's GRPOTrainer from its last checkpoint; it may be killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import tiny_trainer
import torch
from job import Job

from helpers import soak_recorder
from prompt_coevo.adapters.trl import attach
from prompt_coevo.lines import record

SAVED_EVERY: Final = 4
QUESTIONS: Final = 12
GROUP: Final = 4
EPOCH: Final = 3
"""Steps of an epoch."""
STREAM = {"tau": 0.5, "reply_steps": 2}
WAVES = {
    "overspend": "never",
    "tau": 0.5,
    "dev_size": 4,
    "minibatch_size": 2,
    "beam_width": 2,
    "search_budget": 24,
}
INSPO = {
    "instruction": "think well .",
    "paraphrase": False,
    "population_size": 4,
    "evolve_every": 4,
    "rounds": 2,
    "verify_size": 4,
    "candidates_per_call": 2,
}
METHODS: dict[str, dict[str, Any]] = {
    "stream": {"algorithms": "stream", "stream": STREAM},
    "p2o": {"algorithms": "p2o", "p2o": WAVES},
    "inspo": {"algorithms": "inspo", "inspo": INSPO},
    "both": {"algorithms": "inspo,stream", "stream": STREAM, "inspo": INSPO},
}


def whole_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints that the trainer finished, oldest first. Its last file may be torn."""
    found = [
        path.parent
        for path in folder.rglob("checkpoint-*/trainer_state.json")
        if record(path.read_bytes())
    ]
    return sorted(found, key=lambda path: (int(path.name.partition("-")[2]), path.parent.name))


def train(folder: Path, output: Path, address: str, job: Job) -> None:
    """Train to the end, and record every plan in the run's folder."""
    torch.set_num_threads(1)
    os.environ["COEVO_TEST_SOAK"] = str(folder)
    soak_recorder.install()
    # Not shuffled: a resumed GRPOTrainer draws another order than the one that it left.
    trainer = tiny_trainer.build(
        str(output),
        QUESTIONS,
        QUESTIONS // EPOCH * GROUP // job.ranks,
        GROUP,
        job.steps,
        learning_rate=1e-4,
        shuffle_dataset=False,
    )
    trainer.args.save_strategy, trainer.args.save_steps = "steps", SAVED_EVERY
    trainer.args.save_total_limit = 2
    attach(
        trainer,
        {
            **METHODS[job.method],
            "preflight": {"reflection": "off"},  # the teacher counts its calls
            "reflection": {
                "model": "openai/teacher",
                "api_base": address,
                "api_key": "none-needed",
                "max_calls": job.max_calls,
                "concurrency": 4,
            },
        },
    )
    checkpoints = whole_checkpoints(folder)
    trainer.train(resume_from_checkpoint=str(checkpoints[-1]) if checkpoints else None)
