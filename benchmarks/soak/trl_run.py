"""One attempt of a run under TRL's GRPOTrainer, from its last checkpoint on; it may be killed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import tiny_trainer
import torch

from prompt_coevo.adapters.trl import attach

STEPS, SAVED_EVERY, QUESTIONS, GROUP = 24, 4, 12, 4
STREAM = {"search_backend": "stream", "tau": 0.5, "riders": 0.25, "reply_steps": 2}
WAVES = {
    "search_backend": "waves",
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
    "stream": {"algorithms": "p2o", "p2o": STREAM},
    "waves": {"algorithms": "p2o", "p2o": WAVES},
    "inspo": {"algorithms": "inspo", "inspo": INSPO},
    "both": {"algorithms": "inspo,p2o", "p2o": STREAM, "inspo": INSPO},
}


def whole_checkpoints(folder: Path) -> list[Path]:
    """Those that the trainer finished, oldest first."""
    found = [path.parent for path in folder.glob("checkpoint-*/trainer_state.json")]
    return sorted(found, key=lambda path: int(path.name.partition("-")[2]))


def train(folder: Path, address: str, method: str, max_calls: int) -> None:
    """Go on until the end, and write down every plan."""
    torch.set_num_threads(1)
    # Not shuffled: a resumed GRPOTrainer draws another order than the one that it left.
    trainer = tiny_trainer.build(
        str(folder),
        QUESTIONS,
        QUESTIONS // 3 * GROUP,
        GROUP,
        STEPS,
        learning_rate=1e-4,
        shuffle_dataset=False,
    )
    trainer.args.save_strategy, trainer.args.save_steps = "steps", SAVED_EVERY
    trainer.args.save_total_limit = 2
    callback = attach(
        trainer,
        {
            **METHODS[method],
            "reflection": {
                "model": "openai/teacher",
                "api_base": address,
                "api_key": "none-needed",
                "max_calls": max_calls,
                "concurrency": 4,
            },
        },
    )
    engine = callback.engine
    assert engine is not None
    plan = engine.plan

    def noted(question_ids: Any, group_size: int) -> Any:
        decided = plan(question_ids, group_size)
        line = {
            "attempt": engine.policy_version.attempt,
            "round": decided[0].round,
            "plan": [
                [
                    one.question_id,
                    one.instruction.text if one.instruction else "",
                    one.template.text if one.template else "",
                ]
                for one in decided
            ],
        }
        descriptor = os.open(folder / "plans.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, (json.dumps(line) + "\n").encode())
        os.close(descriptor)
        return decided

    engine.plan = noted  # type: ignore[method-assign]
    checkpoints = whole_checkpoints(folder)
    trainer.train(resume_from_checkpoint=str(checkpoints[-1]) if checkpoints else None)
    (folder / "done").write_text("")


if __name__ == "__main__":
    train(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
