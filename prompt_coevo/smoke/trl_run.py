"""One variant with TRL: `python -m prompt_coevo.smoke.trl_run FOLDER`, with the job in the folder."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import datasets
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from prompt_coevo.adapters.trl import CoevoCallback
from prompt_coevo.demo.digits import spell
from prompt_coevo.demo.world import reward
from prompt_coevo.smoke import world
from prompt_coevo.smoke.parts import (
    COMPLETION_TOKENS,
    EPOCHS,
    GROUP,
    LEARNING_RATE,
    QUESTIONS_PER_STEP,
    Evidence,
    ours,
)
from prompt_coevo.smoke.trl import JOB, RESULT, SERVER

_OUR_METRICS = "coevo/"


class Looking(GRPOTrainer):  # type: ignore[misc]
    """Looks at what reaches the loss. It is below the callback, which wraps the object's methods."""

    questions: frozenset[tuple[int, ...]] = frozenset()
    prompts = strangers = 0
    difference: float | None = None

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        pairs = zip(inputs["prompt_ids"].tolist(), inputs["prompt_mask"].tolist(), strict=True)
        for ids, mask in pairs:
            prompt = tuple(token for token, real in zip(ids, mask, strict=True) if real)
            self.prompts += 1
            self.strangers += prompt not in self.questions
        sampler, old = inputs.get("sampling_per_token_logps"), inputs.get("old_per_token_logps")
        if sampler is not None and old is not None:
            # In rows under a template the door has put one in the other's place, so that they add nothing;
            # but with `templated` both are under it.
            apart = ((sampler - old).abs() * inputs["completion_mask"]).max().item()
            known = 0.0 if self.difference is None else self.difference
            self.difference = apart if math.isnan(apart) else max(known, apart)
        return super()._compute_loss(model, inputs)


def main(folder: Path) -> None:
    """Train, and write what is to be judged."""
    job = json.loads((folder / JOB).read_text("utf-8"))
    host = dict(job["trainer"])
    lora, server = host.pop("lora", False), host.pop(SERVER, False)
    with _server(folder) if server else _nothing() as address:
        trainer = _trainer(folder, {**host, **address}, lora=lora, cpu=job["cpu"])
        trainer.questions = _questions(trainer.processing_class)
        trainer.add_callback(CoevoCallback(trainer, job["coevo"]))
        trainer.train()
    inspo = "inspo" in job["coevo"]
    evidence = _evidence(trainer, looked_at_prompts=not inspo)
    (folder / RESULT).write_text(json.dumps(asdict(evidence)), "utf-8")


def _trainer(folder: Path, changes: Mapping[str, Any], *, lora: bool, cpu: bool) -> Looking:
    values: dict[str, Any] = {
        "output_dir": str(folder / "out"),
        "seed": 0,
        "num_train_epochs": EPOCHS,
        "per_device_train_batch_size": GROUP * QUESTIONS_PER_STEP,
        "num_generations": GROUP,
        "max_completion_length": COMPLETION_TOKENS,
        "learning_rate": LEARNING_RATE,
        "gradient_checkpointing": False,  # a variant of its own
        "use_cpu": cpu,
        "bf16": not cpu,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "logging_steps": 1,
    }
    rows = [{"prompt": world.chat(task), "answer": spell(task.answer)} for task in world.tasks()]
    return Looking(
        # A path, because vLLM loads the policy by this name.
        model=AutoModelForCausalLM.from_pretrained(world.policy_path(), dtype=torch.float32),
        reward_funcs=_graded,
        args=GRPOConfig(**{**values, **changes}),
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(world.policy_path()),
        peft_config=_lora() if lora else None,
    )


def _graded(completions: list[Any], answer: list[str], **_: Any) -> list[float]:
    pairs = zip(completions, answer, strict=True)
    return [reward(one[0]["content"], truth) for one, truth in pairs]


def _lora() -> Any:
    from peft import LoraConfig

    return LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")


def _questions(tokenizer: Any) -> frozenset[tuple[int, ...]]:
    """The questions as the trainer encodes them."""
    found = set()
    for task in world.tasks():
        encoded = tokenizer.apply_chat_template(
            world.chat(task), add_generation_prompt=True, tokenize=True, return_dict=True
        )
        found.add(tuple(encoded["input_ids"]))
    return frozenset(found)


def _evidence(trainer: Looking, *, looked_at_prompts: bool) -> Evidence:
    steps = [entry for entry in trainer.state.log_history if "loss" in entry]
    return Evidence(
        losses=[entry["loss"] for entry in steps],
        gradients=[entry["grad_norm"] for entry in steps],
        metrics=ours(steps[-1], _OUR_METRICS),
        templated=max(entry.get(f"{_OUR_METRICS}templated_fraction", 0.0) for entry in steps),
        prompts=trainer.prompts if looked_at_prompts else None,
        strangers=trainer.strangers if looked_at_prompts else 0,
        difference=trainer.difference,
        measure="log-probs, at most",
    )


@contextmanager
def _nothing() -> Iterator[Mapping[str, Any]]:
    yield {}


@contextmanager
def _server(folder: Path) -> Iterator[Mapping[str, Any]]:
    """TRL's vLLM server on the second GPU that this process may see; the trainer has the first one.

    It ends with this process's group at the latest.
    """
    seen = os.environ.get("CUDA_VISIBLE_DEVICES") or "0,1"
    first, second, *_ = seen.split(",")
    os.environ["CUDA_VISIBLE_DEVICES"] = first  # nothing of CUDA was touched by now
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "trl.cli.main", "vllm-serve"),
        *("--model", str(world.policy_path()), "--host", "127.0.0.1", "--port", str(port)),
        *("--max_model_len", "256", "--gpu_memory_utilization", "0.3", "--enforce_eager", "true"),
    ]
    with (folder / "server.txt").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": second},
        )
    try:
        yield {"vllm_server_host": "127.0.0.1", "vllm_server_port": port}
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
