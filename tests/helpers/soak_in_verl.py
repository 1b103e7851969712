"""Make VeRL's processes in a soak repeatable: a repeated run samples and trains as before.

Each rollout gets its own stream of random numbers, by its place instead of by the order in which
requests arrive; rows are trained on in the order of their questions.
"""

from __future__ import annotations

import functools
from contextvars import ContextVar
from typing import Any

from helpers import soak_recorder
from helpers.verl_order import put_into_order
from standins.on_import import when_imported

_place: ContextVar[str] = ContextVar("_place", default="")


def _name_what_runs(module: Any) -> None:
    original = module.AgentLoopWorker._run_agent_loop

    @functools.wraps(original)
    async def run(self: Any, params: Any, trajectory: Any, **row: Any) -> Any:
        validates, place = trajectory["validate"], trajectory["rollout_n"]
        _place.set(f"{validates}/{place}/{row['session_id']}")
        return await original(self, params, trajectory, **row)

    module.AgentLoopWorker._run_agent_loop = run


def _name_requests(module: Any) -> None:
    module.LLMServerClient._vllm_request_id = lambda client, name: f"{_place.get()}:{name}"


soak_recorder.install()
when_imported("verl.experimental.agent_loop.agent_loop", _name_what_runs)
when_imported("verl.workers.rollout.llm_server", _name_requests)
when_imported("verl.trainer.ppo.v1.replay_buffer", put_into_order)
