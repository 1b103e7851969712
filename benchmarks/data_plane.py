"""Measure what +coevo moves and computes on VeRL's driver in a step: real Ray and TransferQueue, no model.

    python benchmarks/data_plane.py [--questions N] [--rollouts N] [--tokens N] [--json FILE]

The agent loop worker is VeRL's own; an agent loop answers with random tokens and a reward, and the worker
writes it into TransferQueue as usual. Half of the rollouts run under one of 16 templates. Of the questions
a tenth is never solved, four tenths always, the others in half of their rollouts. Measured are the
seconds that our code takes on the driver, and the bytes moved because of us: the plans on the way to the
workers, what they leave in all rows, and what is fetched of the rows, for a method that reads no text and
for the stream; the seconds of taking the templates out of the sampler's log-probs of half of the rows; and,
to compare with, the bytes of the batch itself.
CPU seconds cover all of the driver's threads; wall seconds also show how busy the machine is.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import numpy as np
import ray
import torch
import transfer_queue as tq
import verl.trainer.ppo.v1.trainer_base as host
from omegaconf import OmegaConf
from random_tokens import LOOP
from tensordict import TensorDict
from verl.protocol import DataProto
from verl.trainer.ppo.v1 import AgentLoopManagerTQ
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.utils import tensordict_utils as tu

from prompt_coevo import Coevolution, Settings, hookimpl
from prompt_coevo.adapters.common.patching import swapped
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.common.success import Success
from prompt_coevo.adapters.verl.distill import COLUMN
from prompt_coevo.adapters.verl.generation import Dispatcher
from prompt_coevo.adapters.verl.ratio import correcting_the_sampler, measuring_plain_rows
from prompt_coevo.adapters.verl.trainer import CoevoTrainer
from prompt_coevo.types import Candidate, MemberPlan
from worlds.pairs.world import base_policy_path

TEXT = 2_000
"""Characters of a template."""


class _Worker(AgentLoopWorkerTQ.__ray_metadata__.modified_class):  # type: ignore[misc]
    """VeRL's worker, without model and server."""

    def __init__(self, config: Any, tokenizer: Any) -> None:
        self.config = config
        self.rollout_config = config.actor_rollout_ref.rollout
        self.tokenizer, self.processor, self.hf_model_type = tokenizer, None, None
        self.llm_client = self.dataset_cls = self.reward_loop_worker_handles = None
        self.tools: list[Any] = []
        self.distillation_enabled = False
        self.background_tasks: set[Any] = set()
        import_module("random_tokens")  # registers the agent loop in this process
        tq.init()


class Manager(AgentLoopManagerTQ):  # type: ignore[misc]
    """VeRL's manager, with the worker above."""

    def __init__(self, config: Any, tokenizer: Any, workers: int) -> None:
        made = ray.remote(_Worker)
        self.agent_loop_workers = [made.remote(config, tokenizer) for _ in range(workers)]


class HalfTemplated:
    """Give half of the rollouts templates; read no text."""

    templates = tuple(Candidate(f"{n:02} " + "hint " * (TEXT // 5), "template") for n in range(16))

    @hookimpl
    def coevo_plan_group(self, question_id: str, group_size: int) -> list[MemberPlan]:
        half = [MemberPlan(template=self.templates[n % 16]) for n in range(group_size // 2)]
        return [*half, *[MemberPlan()] * (group_size - len(half))]


class Seconds:
    """Count the driver's reads and the bytes they fetch."""

    def __init__(self) -> None:
        self.fetched = 0
        self.calls = 0

    def reading(self, original: Any) -> Any:
        def read(*args: Any, **kwargs: Any) -> Any:
            data = original(*args, **kwargs)
            self.calls += 1
            self.fetched += _size_of(data)
            return data

        return read


def _size_of(data: Any) -> int:
    return sum(_size(data[name]) for name in data.keys())  # noqa: SIM118


def _size(column: Any) -> int:
    if isinstance(column, torch.Tensor):
        values = column.values() if column.is_nested else column
        return values.numel() * values.element_size()
    return len(pickle.dumps([getattr(one, "data", one) for one in column]))


def rows(questions: int, tokens: int) -> list[dict[str, Any]]:
    """Return questions of which a tenth is never solved, half sometimes, the others always."""
    chances = [0.0 if n % 10 == 0 else 0.5 if n % 2 else 1.0 for n in range(questions)]
    return [
        {
            "raw_prompt": [{"role": "user", "content": f"question {number}"}],
            "number": number,
            "tokens": tokens,
            "chance": chance,
        }
        for number, chance in enumerate(chances)
    ]


def engine_of(method: str, questions: QuestionIndex) -> Coevolution:
    if method == "no texts":
        return Coevolution.from_settings(Settings(algorithms=()), plugins={"half": HalfTemplated()})
    settings = Settings(
        algorithms=("stream",),
        reflection={"model": "openai/nobody"},
        preflight={"reflection": "off"},
    )
    engine = Coevolution.from_settings(settings, plugins={"half": HalfTemplated()})
    engine.begin(SimpleNamespace(question=questions.question, question_ids=questions.ids))
    return engine


def batch_of(data: Sequence[dict[str, Any]], step: int) -> Any:
    columns = {
        name: np.array([row[name] for row in data] + [None], dtype=object)[:-1] for name in data[0]
    }
    columns["uid"] = np.array([f"step{step}-{row['number']}" for row in data], dtype=object)
    columns["index"] = np.array([row["number"] for row in data], dtype=object)
    batch = tu.get_tensordict(columns)
    tu.assign_non_tensor_data(batch, "global_steps", step)
    return batch


def step(
    method: str, number: int, manager: Manager, tokenizer: Any, config: Any, options: Any
) -> dict[str, Any]:
    """Run one round: dispatch, sample, take in, clear."""
    data = rows(options.questions, options.tokens)
    questions = QuestionIndex(data, prompt=lambda row: row["raw_prompt"], truth=lambda row: None)
    rollout = config.actor_rollout_ref.rollout
    engine = engine_of(method, questions)
    batch = batch_of(data, number)
    uids = list(batch["uid"])
    tags = [{"is_prompt": True, "status": "pending", "global_steps": number} for _ in uids]
    tq.kv_batch_put(keys=uids, partition_id="train", tags=tags)

    own = SimpleNamespace(generate_sequences=lambda _: None)
    dispatcher = Dispatcher(own, engine, questions, rollout)
    began, cpu = time.perf_counter(), time.process_time()
    dispatcher.generate_sequences(batch)
    planned, planned_cpu = time.perf_counter() - began, time.process_time() - cpu
    plans = len(cloudpickle.dumps(batch.select(COLUMN, "agent_name")))
    manager.generate_sequences(batch)
    buffer = ReplayBuffer("sync", None, None, "drop", None, poll_interval=1.0)
    found, _ = buffer.sample(number, "train", options.questions)
    sampled = time.perf_counter() - began

    seen = Seconds()
    original = tq.kv_batch_get
    tq.kv_batch_get = seen.reading(original)
    began, cpu = time.perf_counter(), time.process_time()
    take_in(dispatcher, engine, list(found.keys), tokenizer)
    taken_in, taken_in_cpu = time.perf_counter() - began, time.process_time() - cpu
    tq.kv_batch_get = original

    corrected_cpu = correction(options)

    some = list(found.keys)[:: max(1, len(found.keys) // 64)]
    stored = tq.kv_batch_get(keys=some, partition_id="train")
    share = len(found.keys) / len(some)
    in_rows = _size(stored[COLUMN]) * share
    whole = (_size_of(stored) - _size(stored[COLUMN])) * share
    for start in range(0, len(found.keys), 1024):
        tq.kv_clear(keys=found.keys[start : start + 1024], partition_id="train")
    moved = plans + in_rows + seen.fetched
    return {
        "method": method,
        "rollouts": len(found.keys),
        "tokens": options.tokens,
        "plan_s": round(planned, 3),
        "plan_cpu_s": round(planned_cpu, 3),
        "take_in_s": round(taken_in, 3),
        "take_in_cpu_s": round(taken_in_cpu, 3),
        "sampling_s": round(sampled, 1),
        "plans_bytes": plans,
        "rows_bytes": int(in_rows),
        "fetched_bytes": seen.fetched,
        "fetches": seen.calls,
        "batch_bytes": int(whole),
        "moved_share": round(moved / whole, 5),
        "correction_cpu_s": round(corrected_cpu, 3),
    }


def correction(options: Any) -> float:
    """Return the CPU seconds of taking the templates out of the log-probs of half of the rows, in what VeRL
    has on the driver. Nothing is moved for it."""
    number = options.questions * options.rollouts
    keys = [str(place) for place in range(number)]
    columns = ("old_log_probs", "rollout_log_probs", "response_mask")
    whole = DataProto(
        batch=TensorDict(
            {name: torch.ones(number, options.tokens) for name in columns}, batch_size=number
        )
    )
    name, metrics = "compute_rollout_correction_and_add_to_batch", "calculate_debug_metrics"
    cpu = time.process_time()
    with swapped(host, metrics, lambda _: {}), swapped(host, name, lambda data, config: None):
        with measuring_plain_rows(keys, keys[::2]):
            getattr(host, metrics)(whole)
        with correcting_the_sampler(keys, keys[::2], {}):
            getattr(host, name)(whole, None)
    return time.process_time() - cpu


def take_in(dispatcher: Dispatcher, engine: Coevolution, keys: list[str], tokenizer: Any) -> None:
    """Do what the trainer does after advantages."""
    trainer = object.__new__(CoevoTrainer)
    trainer.config = OmegaConf.create({"trainer": {}})
    trainer.tokenizer, trainer.global_steps = tokenizer, 1
    trainer._dispatcher, trainer._engine = dispatcher, engine
    trainer._success = Success(Settings().success, "the reward's dictionary")
    trainer._observe(keys, {})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=1024)
    parser.add_argument("--rollouts", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=8_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base_policy_path())
    agent = {"default_agent_loop": LOOP, "num_workers": 1, "agent_loop_config_path": None}
    sampling = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "calculate_log_probs": True}
    rollout = {"n": options.rollouts, "agent": agent, **sampling}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}, "data": {}})
    here = {"env_vars": {"PYTHONPATH": str(Path(__file__).resolve().parent)}}
    if options.json:
        options.json = options.json.resolve()
    # Ray's processes import from here first, and a checkout has no prompt_coevo.adapters.
    os.chdir(tempfile.mkdtemp())
    ray.init(num_cpus=8, include_dashboard=False, object_store_memory=200_000_000, runtime_env=here)
    units = {"backend": {"SimpleStorage": {"num_data_storage_units": 2}}}
    tq.init(OmegaConf.create(units))
    manager = Manager(config, tokenizer, workers=1)
    lines = []
    for number, method in enumerate(("no texts", "stream"), 1):
        lines.append(step(method, number, manager, tokenizer, config, options))
        print(json.dumps(lines[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
