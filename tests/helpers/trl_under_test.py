"""Run the TRL adapter under the kit's laws: the real trainer, recorded by `Recorder`."""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

os.environ.update(CI="1", HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", OMP_NUM_THREADS="1")

import numpy as np
import torch
from datasets import Dataset
from transformers import AutoTokenizer, PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from helpers.torchrun import on_two_ranks
from helpers.trl_recorder import Recorder, first_policy
from helpers.trl_world import TASKS, rows
from prompt_coevo.adapters.trl import CoevoCallback
from prompt_coevo.testing.adapter import Capability, Job, Material, Record, Scored, reward_of
from worlds.pairs.world import base_policy_path

Kind = Literal["GRPO", "RLOO"]
UPDATES_PER_ROUND = 2
TEMPERATURE = 1.2  # warm enough that rows differ in length
_SETTINGS = {
    "steps_per_generation": UPDATES_PER_ROUND,
    "num_generations_eval": 1,
    "per_device_eval_batch_size": 4,
    "max_completion_length": 6,
    "temperature": TEMPERATURE,
    "learning_rate": 1e-2,
    "lr_scheduler_type": "constant",
    "beta": 0.05,
    # TRL draws the order of every epoch from one generator, which a resumed run restarts.
    "shuffle_dataset": False,
    "use_cpu": True,
    "bf16": False,
    "report_to": "none",
    "logging_steps": 1,
    "disable_tqdm": True,
}


class RecordingGRPO(Recorder, GRPOTrainer): ...


class RecordingRLOO(Recorder, RLOOTrainer): ...


CLASSES = {"GRPO": (RecordingGRPO, GRPOConfig), "RLOO": (RecordingRLOO, RLOOConfig)}


def arguments(job: Job) -> dict[str, Any]:
    """Return the arguments of a GRPOConfig or RLOOConfig."""
    rows_per_round = max(1, len(job.rows) // 2) * job.group_size
    changes: dict[str, Any] = {"save_strategy": "no"}
    if job.saves:
        changes = {"save_strategy": "steps", "save_steps": UPDATES_PER_ROUND}
    if job.evaluates:
        changes |= {
            "eval_strategy": "steps",
            "eval_steps": UPDATES_PER_ROUND,
            "eval_on_start": True,
        }
    return {
        **_SETTINGS,
        **changes,
        "num_train_epochs": job.epochs,
        "num_generations": job.group_size,
        "per_device_train_batch_size": rows_per_round // UPDATES_PER_ROUND // job.ranks,
    }


class Killed(Exception):
    """Raised where the process is killed."""


class Moments(TrainerCallback):
    """Tell the recorder of the trainer's moments; runs before the adapter's own callback."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.trainer: Any = None

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.trainer.count_from_here()

    def on_epoch_end(self, *_: Any, **__: Any) -> None:
        self.trainer.record.epochs.append(self.trainer.updates)

    def on_save(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        step = state.global_step
        self.trainer.record.checkpoints[step] = Path(args.output_dir) / f"checkpoint-{step}"
        if step == self.job.stop_after:
            raise Killed


class TrlAdapterUnderTest:
    """Implement `prompt_coevo.testing.adapter.AdapterUnderTest` for GRPOTrainer or RLOOTrainer."""

    lacks: Mapping[Capability, str] = {
        "late rollouts": "TRL scores a generation batch before it samples the next one",
        "rollouts in parts": "TRL scores a generation batch as a whole",
    }

    def __init__(self, kind: Kind = "GRPO") -> None:
        self._kind = kind
        self._tokenizer = AutoTokenizer.from_pretrained(base_policy_path())
        self.material = Material(
            rows(TASKS[:4]),
            texts=("please note .", "always remember .", "now carefully ."),
            long_text=" ".join(["dax means reverse . wug means rotate ."] * 3),
        )

    def encode(self, prompt: Any) -> list[int]:
        chat = self._tokenizer.apply_chat_template(
            prompt, add_generation_prompt=True, return_dict=True
        )
        return list(chat["input_ids"])

    def run(self, job: Job, folder: Path) -> Record:
        record = train(self._kind, job, folder) if job.ranks == 1 else self._on_ranks(job, folder)
        journal = folder / "coevo" / "events.jsonl"
        record.journal = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
        return record

    def edit_state(self, checkpoint: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
        path = checkpoint / "coevo_state.json"
        path.write_text(json.dumps(edit(json.loads(path.read_text("utf-8")))), "utf-8")

    def _on_ranks(self, job: Job, folder: Path) -> Record:
        (folder / "job").write_bytes(pickle.dumps((self._kind, job)))
        on_two_ranks(Path(__file__), str(folder))
        files = [folder / f"rank{rank}" for rank in range(job.ranks)]
        first, *others = [pickle.loads(file.read_bytes()) for file in files]
        for other in others:
            first.sampled += other.sampled
            first.trained += other.trained
            first.scored += other.scored
            first.engines += other.engines
            first.rank_weights += other.rank_weights
        return first


def train(kind: Kind, job: Job, folder: Path) -> Record:
    """Run the job in this process, which may be one of several; the journal is left out."""
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    record = Record([], dataset=copy.deepcopy(list(job.rows)), temperature=TEMPERATURE)
    moments = Moments(job)

    def fails_on(rank: int) -> bool:
        return job.failing == "everywhere" or (
            job.failing == "on the last rank" and rank == job.ranks - 1
        )

    def reward(
        prompts: list[Any],
        completions: list[Any],
        id: list[str],
        log_metric: Any,
        log_extra: Any,
        **_: Any,
    ) -> list[float | None]:
        random.random(), np.random.rand(), torch.rand(1)  # as one with random choices would
        log_metric("mine", random.random())
        log_extra("column", [random.random() for _ in completions])
        texts = [completion[0]["content"] for completion in completions]
        values = [reward_of(job, *one) for one in zip(id, texts, strict=True)]
        if callback.policy.active is not None and fails_on(trainer.accelerator.process_index):
            raise RuntimeError("the reward is down")
        record.scored += map(Scored, id, copy.deepcopy(prompts), texts, values)
        return values

    trainer_class, config = CLASSES[kind]
    trainer: Any = trainer_class(
        model=first_policy(),
        record=record,
        reward_funcs=reward,
        args=config(output_dir=str(folder), **arguments(job)),
        train_dataset=Dataset.from_list(list(job.rows)),
        eval_dataset=Dataset.from_list(list(job.rows)),
        processing_class=AutoTokenizer.from_pretrained(base_policy_path()),
        callbacks=[moments],
    )
    trainer.remove_callback(PrinterCallback)
    moments.trainer = trainer
    callback = CoevoCallback(trainer, job.settings)
    trainer.add_callback(callback)
    rollout = callback.policy.rollout

    def watched(requests: Any) -> Any:
        before = trainer.host_state()
        answers = trainer._during("policy", rollout, requests)
        record.around_policy.append((before, trainer.host_state()))
        return answers

    callback.policy.rollout = watched
    with suppress(Killed):
        trainer.train(resume_from_checkpoint=job.resume_from and str(job.resume_from))
    record.dataset = trainer.train_dataset.to_list()
    record.logged = trainer.state.log_history
    record.engines = int(callback.engine is not None)
    record.rank_weights = (trainer.weights(),)
    return record


if __name__ == "__main__":
    torch.set_num_threads(1)
    given = Path(sys.argv[1])
    written = train(*pickle.loads((given / "job").read_bytes()), given)
    (given / f"rank{os.environ['RANK']}").write_bytes(pickle.dumps(written))
