"""Run OpenRLHF with the real vLLM on a CPU, and record what that does.

NCCL is replaced by the group's store, as for the stand-in, and usually bfloat16 by float32. The engine's
actions go to the file that `COEVO_TEST_SERVER_LOG` names, in the stand-in's format. `install` is for
OpenRLHF's own processes, `in_vllm` for those that vLLM starts, which Ray's hook does not reach.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from typing import Any

import torch

from standins import json_lines
from standins.on_import import when_imported
from standins.openrlhf import cpu


def install() -> None:
    """Install in OpenRLHF's processes; `COEVO_TEST_INSTALL` names this function."""
    when_imported("vllm.distributed.device_communicators.pynccl", _store_for_nccl)
    when_imported("openrlhf.trainer.ray.vllm_engine", _float32_and_recorded)


def in_vllm() -> None:
    """Install in vLLM's processes; `COEVO_TEST_VLLM` names this function."""
    from openrlhf.trainer.ray.vllm_worker_wrap import WorkerWrap

    when_imported("vllm.distributed.device_communicators.pynccl", _store_for_nccl)
    WorkerWrap.update_weight = _update_weight


def _store_for_nccl(module: Any) -> None:
    from standins.openrlhf.vllm.distributed.device_communicators.pynccl import PyNcclCommunicator

    module.PyNcclCommunicator = PyNcclCommunicator


def _update_weight(
    self: Any, name: str, dtype: torch.dtype, shape: torch.Size, empty_cache: bool = False
) -> float | None:
    """Load a weight on the CPU, where OpenRLHF's own names cuda; return a checksum with the last one."""
    assert dtype == self.model_config.dtype
    weight = torch.empty(shape, dtype=dtype)
    self._model_update_group.broadcast(weight, src=0)
    model = self.model_runner.model
    model.load_weights(weights=[(name, weight)])
    if not empty_cache:
        return None
    return sum(float(tensor.detach().float().abs().sum()) for tensor in model.parameters())


def _float32_and_recorded(module: Any) -> None:
    """Use float32: OpenRLHF asks for bfloat16, and loads no other type than the engine's."""
    vllm = module.vllm
    arguments = vllm.AsyncEngineArgs

    @functools.wraps(arguments)
    def in_float32(*given: Any, **named: Any) -> Any:
        return arguments(*given, **{**named, "dtype": "float32"})

    if not cpu.keeps_type():
        vllm.AsyncEngineArgs = in_float32
    _record(vllm.AsyncLLMEngine)


def _record(engine: Any) -> None:
    generate, collective_rpc = engine.generate, engine.collective_rpc
    version = 0

    @functools.wraps(generate)
    async def recorded(
        self: Any, prompt: Any, sampling_params: Any, *more: Any, **named: Any
    ) -> AsyncIterator[Any]:
        sampled_by, output = version, None
        async for output in generate(self, prompt, sampling_params, *more, **named):
            yield output
        (answer,) = output.outputs
        ids = list(answer.token_ids)
        values = answer.logprobs
        event = {
            "event": "generate",
            "prompt_ids": list(prompt["prompt_token_ids"]),
            "response_ids": ids,
            "log_probs": values
            and [row[token].logprob for token, row in zip(ids, values, strict=True)],
            "temperature": sampling_params.temperature,
            "top_p": sampling_params.top_p,
            "top_k": sampling_params.top_k,
            "version": sampled_by,
            **(sampling_params.extra_args or {}),
        }
        json_lines.append("COEVO_TEST_SERVER_LOG", [event])

    @functools.wraps(collective_rpc)
    async def counted(self: Any, *given: Any, **named: Any) -> Any:
        nonlocal version
        results = await collective_rpc(self, *given, **named)
        (checksum,) = results
        if isinstance(checksum, float):
            version += 1
            event = {"event": "weights", "version": version, "checksum": checksum}
            json_lines.append("COEVO_TEST_SERVER_LOG", [event])
        return results

    engine.generate, engine.collective_rpc = recorded, counted
