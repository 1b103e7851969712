"""Record what VeRL does in the runs of `helpers.verl_under_test`, in each of its processes.

VeRL loads it through `VERL_USE_EXTERNAL_MODULES`. All of it is below the adapter: around the rollout
server's client, the reward manager, the optimizer, and methods of the trainer's base class. Only the state
around a policy rollout is taken where the adapter is asked for it. The lines go to the file in
`COEVO_TEST_RECORD` in order of time, whichever process they come from; the weights go beside it.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import random
import signal
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
import ray
import torch
import transfer_queue as tq

from helpers.verl_order import put_into_order
from prompt_coevo.testing.adapter import Job, fingerprint
from standins import json_lines
from standins.on_import import when_imported

_AGENT_LOOP = "verl.experimental.agent_loop.agent_loop"
_running: ContextVar[dict[str, Any] | None] = ContextVar("_running", default=None)
_for_the_engine: ContextVar[bool] = ContextVar("_for_the_engine", default=False)
_trainer: list[Any] = []


def install() -> None:
    """Wait for the modules of interest."""
    when_imported(_AGENT_LOOP, _note_what_runs)
    when_imported("verl.workers.rollout.llm_server", _note_what_is_sampled)
    when_imported("verl.experimental.reward_loop.reward_manager.naive", _note_rewards)
    when_imported("verl.workers.engine.fsdp.transformer_impl", _note_updates)
    when_imported("verl.trainer.ppo.v1.trainer_base", _note_the_trainer)
    when_imported("verl.trainer.ppo.v1.replay_buffer", put_into_order)
    when_imported("prompt_coevo.engine.coevolution", _note_engines)
    when_imported("prompt_coevo.adapters.verl.policy", _note_policy_rollouts)


def note(event: str, **fields: Any) -> None:
    """Write one line."""
    json_lines.append("COEVO_TEST_RECORD", [{"event": event, **fields}])


def job() -> Job:
    """Return this run's job."""
    return Job(**json.loads(Path(os.environ["COEVO_TEST_JOB"]).read_text()))


def updates_before(job: Job) -> int:
    """Return how many updates precede the checkpoint that the run resumes from."""
    return int(str(job.resume_from or "_0").rpartition("_")[2])


# In the agent loop worker


def _note_what_runs(module: Any) -> None:
    original = module.AgentLoopWorker._run_agent_loop

    @functools.wraps(original)
    async def run(self: Any, params: Any, trajectory: Any, **row: Any) -> Any:
        _running.set(
            {
                "validates": bool(trajectory["validate"]),
                "place": int(trajectory["rollout_n"]),
                "uid": row["uid"],
                "session": int(row["session_id"]),
                "step": int(row["global_steps"]),
            }
        )
        # The host's own evaluation has no sampling parameters in our column.
        _for_the_engine.set(bool(getattr(row.get("coevo"), "sampling", None)))
        return await original(self, params, trajectory, **row)

    module.AgentLoopWorker._run_agent_loop = run
    score = module.AgentLoopWorker._compute_score

    @functools.wraps(score)
    async def compute_score(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _for_the_engine.get() and job().failing == "everywhere":
            raise RuntimeError("the reward is down")
        return await score(self, *args, **kwargs)

    module.AgentLoopWorker._compute_score = compute_score


def _note_what_is_sampled(module: Any) -> None:
    """Record samples, and give each request its own random numbers, derived from its purpose."""
    original = module.LLMServerClient.generate
    module.LLMServerClient._vllm_request_id = _stream

    @functools.wraps(original)
    async def generate(self: Any, request_id: str, **request: Any) -> Any:
        output = await original(self, request_id, **request)
        note(
            "sampled",
            **(_running.get() or {}),
            prompt_ids=list(request["prompt_ids"]),
            completion_ids=list(output.token_ids),
            temperature=request["sampling_params"]["temperature"],
            updates=output.extra_fields["global_steps"],
        )
        return output

    module.LLMServerClient.generate = generate


def _stream(client: Any, request_id: str) -> str:
    row = _running.get() or {}
    return f"{row['validates']}/{row['place']}/{row['session']}:{request_id}"


# In the reward worker


def _note_rewards(module: Any) -> None:
    original = module.NaiveRewardManager.run_single

    @functools.wraps(original)
    async def run_single(self: Any, data: Any) -> Any:
        last = data[-1:]
        given, response = last.non_tensor_batch, last.batch["responses"][0]
        result = await original(self, data)
        note(
            "scored",
            id=given["extra_info"][0]["id"],
            prompt=[dict(message) for message in given["raw_prompt"][0]],
            text=self.tokenizer.decode(response, skip_special_tokens=True),
            reward=result["reward_score"],
        )
        return result

    module.NaiveRewardManager.run_single = run_single


# In the actor


def _note_updates(module: Any) -> None:
    original = module.FSDPEngine.optimizer_step

    @functools.wraps(original)
    def optimizer_step(self: Any) -> Any:
        if not hasattr(self, "coevo_updates"):
            self.coevo_updates = updates_before(job())
            _keep_weights(self)
        result = original(self)
        self.coevo_updates += 1
        _keep_weights(self)
        return result

    module.FSDPEngine.optimizer_step = optimizer_step


def _keep_weights(engine: Any) -> None:
    weights = {
        name: (parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter)
        .detach()
        .clone()
        for name, parameter in engine.module.named_parameters()
    }
    rank, number = torch.distributed.get_rank(), engine.coevo_updates
    if rank == 0:
        torch.save(weights, Path(os.environ["COEVO_TEST_RECORD"]).with_name(f"weights-{number}.pt"))
    joined = b"".join(tensor.numpy().tobytes() for tensor in weights.values())
    note("weights", rank=rank, updates=number, weights=fingerprint(joined))


# In the trainer


def _note_engines(module: Any) -> None:
    original = module.Coevolution.__init__

    @functools.wraps(original)
    def init(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        note("engine", process=os.getpid())

    module.Coevolution.__init__ = init


def _note_the_trainer(module: Any) -> None:
    """Record the trainer, and number its questions in place of random ids."""
    base, numbers = module.PPOTrainer, itertools.count()
    module.uuid = SimpleNamespace(uuid4=lambda: UUID(int=next(numbers)))
    init, fit = base.__init__, base.fit
    validate, save = base._validate, base._save_checkpoint

    @functools.wraps(init)
    def init_noted(self: Any, config: Any) -> None:
        _trainer.append(self)
        init(self, config)

    @functools.wraps(fit)
    def fit_noted(self: Any, manager: Any) -> None:
        fit(self, manager)
        data = self.train_dataset
        rows = [_row(data[number]) for number in range(len(data))]
        note("dataset", rows=rows)

    @functools.wraps(validate)
    def validate_noted(self: Any) -> Any:
        note("evaluation", updates=self.global_steps)
        result = validate(self)
        note("evaluated")
        return result

    @functools.wraps(save)
    def save_noted(self: Any) -> None:
        save(self)
        if self.global_steps == job().stop_after:
            note("killed")
            os.kill(os.getpid(), signal.SIGKILL)

    base.__init__, base.fit = init_noted, fit_noted
    base._validate, base._save_checkpoint = validate_noted, save_noted


def _row(row: Any) -> dict[str, Any]:
    return {
        "id": row["extra_info"]["id"],
        "prompt": [dict(message) for message in row["raw_prompt"]],
        "answer": row["reward_model"]["ground_truth"],
    }


def _note_policy_rollouts(module: Any) -> None:
    original = module.VerlPolicy.rollout

    @functools.wraps(original)
    def rollout(self: Any, requests: Any) -> Any:
        before = _host_state()
        found = original(self, requests)
        note("policy", before=before, after=_host_state())
        return found

    module.VerlPolicy.rollout = rollout


def _host_state() -> dict[str, str]:
    """Return the state that a rollout must leave: trainer process, TransferQueue, rollout server."""
    trainer = _trainer[-1]
    awake, checksum = ray.get(ray.get_actor("hfcpu_server_0").state.remote())
    return {
        "random": fingerprint(
            [repr(random.getstate()), repr(np.random.get_state()), torch.get_rng_state().tolist()]
        ),
        "weights": str(checksum),
        "mode": str(awake),
        "metrics": fingerprint(
            [
                repr(getattr(trainer, "timing_raw", None)),
                repr(getattr(trainer, "_pending_sync_metrics", None)),
            ]
        ),
        "queue": fingerprint({name: rows for name, rows in (tq.kv_list() or {}).items() if rows}),
        "step": str(trainer.global_steps),
    }


install()
