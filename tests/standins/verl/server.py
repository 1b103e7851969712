"""Replace vLLM's engine: generate with transformers for all requests that wait at the same time.

Like the engine it loses its weights while asleep and does not answer before it gets new ones. Its actions
go to the file that `COEVO_TEST_SERVER_LOG` names. A request's tokens depend on `COEVO_TEST_SEED`, the
replica, the weights' version, the prompt, the sampling parameters, and how often the prompt was sampled
under these weights; not on the order in which requests arrive. The part of a request's id before a colon
has its own random numbers.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import Counter
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.replica import TokenOutput

from standins import json_lines
from standins.batcher import Answer, Batcher
from standins.sampling import Request

_PARTS = frozenset({"weights", "kv_cache"})
_UNDERSTOOD = {
    "temperature", "top_p", "top_k", "repetition_penalty", "logprobs", "max_tokens", "max_new_tokens",
    "stop", "include_stop_str_in_output",
}  # fmt: skip


class Server:
    """A Ray actor with the methods that VeRL's trainers call."""

    def __init__(self, config: Any, model_config: Any, replica_rank: int) -> None:
        torch.set_num_threads(1)
        self._replica = replica_rank
        self._seed = f"{os.environ.get('COEVO_TEST_SEED', '0')}/{replica_rank}"
        torch.manual_seed(int(os.environ.get("COEVO_TEST_SEED", "0")) + replica_rank)
        self._config = config
        model_config = omega_conf_to_dataclass(model_config)
        self._model = AutoModelForCausalLM.from_config(
            AutoConfig.from_pretrained(model_config.local_path)
        )
        self._model.float().eval()
        self._tokenizer = model_config.tokenizer
        self._batcher = Batcher(self._model, self._tokenizer, self._log_generated)
        self._global_steps: int | None = None
        self._has_weights = False
        self._awake = _PARTS
        self._asked: Counter[str] = Counter()
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._rejects = False

    async def wake_up(self, tags: list[str] | None = None) -> None:
        self._awake = self._awake | frozenset(tags or _PARTS)
        self._log({"event": "wake", "tags": tags})

    async def sleep(self) -> None:
        if self._batcher.busy:
            raise RuntimeError("put to sleep while it generates")
        self._awake, self._has_weights = frozenset(), False
        self._log({"event": "sleep"})

    async def load_weights(self, state: dict[str, torch.Tensor], global_steps: int | None) -> None:
        if "weights" not in self._awake:
            raise RuntimeError("the server is asleep and has no room for weights")
        missing, unexpected = self._model.load_state_dict(state, strict=False)
        if unexpected or set(missing) - set(self._model._tied_weights_keys or ()):
            raise RuntimeError(f"weights do not fit: {missing} missing, {unexpected} unexpected")
        self._model.tie_weights()
        self._has_weights = True
        if global_steps is not None:  # after a sleep in the middle of a step VeRL names none
            self._global_steps = global_steps
            self._asked.clear()
        checksum = sum(float(tensor.abs().sum()) for tensor in state.values())
        self._log({"event": "weights", "global_steps": self._global_steps, "checksum": checksum})

    async def generate(
        self,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        request_id: str,
        image_data: Any = None,
        video_data: Any = None,
        **_: Any,
    ) -> TokenOutput:
        while not self._resumed.is_set():
            if self._rejects:
                return self._output([], [], "aborted", sampling_params)
            await self._resumed.wait()
        self._check_ready()
        stream = request_id.rpartition(":")[0]
        request = self._request([int(token) for token in prompt_ids], sampling_params, stream)
        ids, values = await self._batcher.answer(request)
        reason = "completed" if self._is_whole(request, ids) else "aborted"
        return self._output(ids, values, reason, sampling_params)

    def _output(
        self, ids: list[int], values: list[float], reason: str, params: dict[str, Any]
    ) -> TokenOutput:
        return TokenOutput(
            token_ids=ids,
            log_probs=values if params.get("logprobs") else None,
            stop_reason=reason,
            extra_fields={"global_steps": self._global_steps},
        )

    def _is_whole(self, request: Request, ids: list[int]) -> bool:
        if len(ids) >= request.max_tokens or self._tokenizer.eos_token_id in ids[-1:]:
            return True
        text = self._tokenizer.decode(ids)
        return any(stop in text for stop in request.stop)

    async def abort_all_requests(self, reject_request: bool = False) -> None:
        """End all generations as they are; later requests wait, or are sent back if `reject_request`."""
        self._rejects = reject_request
        self._resumed.clear()
        await self._batcher.abort()
        self._log({"event": "abort"})

    async def resume_generation(self) -> None:
        self._rejects = False
        self._resumed.set()
        self._log({"event": "resume"})

    async def release_kv_cache(self) -> None:
        self._awake = self._awake - {"kv_cache"}

    async def resume_kv_cache(self) -> None:
        self._awake = self._awake | {"kv_cache"}

    def _check_ready(self) -> None:
        if self._awake != _PARTS:
            raise RuntimeError("asked to generate while the server is asleep")
        if not self._has_weights:
            raise RuntimeError("asked to generate before the server got weights")

    async def state(self) -> tuple[list[str], float]:
        """Return which parts are awake, and a checksum of the weights."""
        tensors = self._model.state_dict().values()
        return sorted(self._awake), sum(float(tensor.abs().sum()) for tensor in tensors)

    def _request(self, prompt_ids: list[int], params: dict[str, Any], stream: str) -> Request:
        if unknown := set(params) - _UNDERSTOOD:
            raise NotImplementedError(f"sampling parameters {sorted(unknown)}")
        if params.get("repetition_penalty", 1.0) != 1.0:
            raise NotImplementedError("repetition_penalty")
        if params.get("stop") and not params.get("include_stop_str_in_output"):
            raise NotImplementedError("stop texts that are left out")
        room = self._model.config.max_position_embeddings - len(prompt_ids)
        if room < 1:
            raise ValueError(f"a prompt of {len(prompt_ids)} tokens leaves no room to generate")
        most = params.get("max_tokens") or params.get("max_new_tokens")
        settings = (
            float(params.get("temperature", 1.0)),
            float(params.get("top_p", 1.0)),
            int(params.get("top_k", -1)),
        )
        asked = f"{self._seed}/{self._global_steps}/{settings}/{prompt_ids}{stream}"
        self._asked[asked] += 1
        digest = hashlib.sha256(f"{asked}/{self._asked[asked]}".encode()).digest()
        return Request(
            prompt_ids,
            max_tokens=min(most or self._config.response_length, room),
            temperature=settings[0],
            seed=int.from_bytes(digest[:8], "big"),
            top_p=settings[1],
            top_k=settings[2],
            stop=tuple(params.get("stop") or ()),
        )

    def _log_generated(self, batch: list[tuple[Request, Answer]]) -> None:
        self._log(*(self._generated(request, ids) for request, (ids, _) in batch))

    def _generated(self, request: Request, ids: list[int]) -> dict[str, Any]:
        return {
            "event": "generate",
            "prompt_ids": request.prompt_ids,
            "response_ids": ids,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "top_k": request.top_k,
            "global_steps": self._global_steps,
        }

    def _log(self, *records: dict[str, Any]) -> None:
        json_lines.append(
            "COEVO_TEST_SERVER_LOG", [{**record, "replica": self._replica} for record in records]
        )
