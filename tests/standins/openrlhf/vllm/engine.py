"""Replace `vllm.AsyncLLMEngine`: generate with transformers for all requests that wait together.

Its actions go to the file that `COEVO_TEST_SERVER_LOG` names. Version 0 of the weights comes from the
checkpoint, and each broadcast of all weights makes the next. A resumed run, whose first broadcast has the
weights of its checkpoint, counts on from `COEVO_TEST_FIRST_VERSION`. A request's tokens depend on
`COEVO_TEST_SEED`, the engine's seed, the weights' version, the prompt, the sampling parameters (with
`extra_args`), and how often the prompt was sampled with these under these weights; not on the order in
which requests arrive.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Self

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from standins import json_lines
from standins.batcher import Answer, Batcher
from standins.openrlhf import cpu
from standins.sampling import Request

from .inputs import TokensPrompt
from .outputs import CompletionOutput, Logprob, RequestOutput
from .sampling_params import SamplingParams
from .worker import Worker

_PARTS = frozenset({"weights", "kv_cache"})


@dataclass(kw_only=True)
class AsyncEngineArgs:
    """The arguments that OpenRLHF passes. Usually all is in float32, whatever `dtype` says, see
    `standins.openrlhf.cpu`."""

    model: str
    max_model_len: int
    seed: int = 0
    tensor_parallel_size: int = 1
    logprobs_mode: str = "raw_logprobs"
    max_logprobs: int = 20
    enable_sleep_mode: bool = False
    enable_prefix_caching: bool | None = None
    enforce_eager: bool = False
    dtype: str = "auto"
    trust_remote_code: bool = False
    gpu_memory_utilization: float = 0.92
    distributed_executor_backend: str | None = None
    worker_extension_cls: str = ""

    def __post_init__(self) -> None:
        if self.tensor_parallel_size != 1:
            raise NotImplementedError("more than one worker")


class AsyncLLMEngine:
    """The methods that OpenRLHF's `RolloutRayActor` calls."""

    @classmethod
    def from_engine_args(cls, engine_args: AsyncEngineArgs) -> Self:
        return cls(engine_args)

    def __init__(self, args: AsyncEngineArgs) -> None:
        torch.set_num_threads(1)
        self._args = args
        self._seed = f"{os.environ.get('COEVO_TEST_SEED', '0')}/{args.seed}"
        self._tokenizer = AutoTokenizer.from_pretrained(args.model)
        dtype = args.dtype if cpu.keeps_type() else "float32"
        self._model = AutoModelForCausalLM.from_pretrained(args.model, dtype=dtype).eval()
        self._worker = Worker(self._model)
        self._batcher = Batcher(self._model, self._tokenizer, self._log_generated)
        self._version = int(os.environ.get("COEVO_TEST_FIRST_VERSION", "0"))
        self._has_weights = True
        self._awake = _PARTS
        self._asked: Counter[str] = Counter()
        self._running = asyncio.Event()
        self._running.set()
        self.output_processor = _OutputProcessor()
        self._log_weights()

    async def is_sleeping(self) -> bool:
        return self._awake != _PARTS

    async def sleep(self, level: int = 1) -> None:
        """Sleep: level 1 keeps the weights in main memory, as in vLLM; level 2 forgets them."""
        if not self._args.enable_sleep_mode:
            raise RuntimeError("put to sleep without enable_sleep_mode")
        if self._batcher.busy:
            raise RuntimeError("put to sleep while it generates")
        self._awake = frozenset()
        self._has_weights = self._has_weights and level == 1
        self._log({"event": "sleep", "level": level})

    async def wake_up(self, tags: list[str] | None = None) -> None:
        self._awake = self._awake | frozenset(tags or _PARTS)
        self._log({"event": "wake", "tags": tags})

    async def reset_prefix_cache(self) -> None:
        """Do nothing: no state is kept between two requests."""

    async def pause_generation(self, *, mode: str = "abort") -> None:
        if mode != "keep":
            raise NotImplementedError(f"pause_generation({mode!r})")
        self._running.clear()
        async with self._batcher.between_batches():
            self._log({"event": "pause"})

    async def resume_generation(self) -> None:
        self._running.set()
        self._log({"event": "resume"})

    async def collective_rpc(
        self, method: str, timeout: float | None = None, args: tuple[Any, ...] = ()
    ) -> list[None]:
        """Call a method of OpenRLHF's worker extension, in the only worker."""
        if method == "init_process_group":
            await asyncio.to_thread(self._worker.init_process_group, *args)
        elif method == "update_weight":
            await self._update_weight(*args)
        else:
            raise NotImplementedError(method)
        return [None]

    async def _update_weight(
        self, name: str, dtype: torch.dtype, shape: torch.Size, last: bool
    ) -> None:
        if "weights" not in self._awake:
            raise RuntimeError("the engine is asleep and has no room for weights")
        weight = await asyncio.to_thread(self._worker.receive, name, dtype, shape, last)
        async with self._batcher.between_batches():
            self._worker.load(name, weight)
            if last:
                self._version += 1
                self._has_weights = True
                self._asked.clear()
                self._log_weights()

    async def generate(
        self, prompt: TokensPrompt, sampling_params: SamplingParams, request_id: str
    ) -> AsyncIterator[RequestOutput]:
        """Yield one output, when all is sampled."""
        self._check_ready()
        self.output_processor.unfinished += 1
        try:
            await self._running.wait()
            request = self._request(list(prompt["prompt_token_ids"]), sampling_params)
            yield self._output(await self._batcher.answer(request), sampling_params)
        finally:
            self.output_processor.unfinished -= 1

    def _check_ready(self) -> None:
        if self._awake != _PARTS:
            raise RuntimeError("asked to generate while the engine is asleep")
        if not self._has_weights:
            raise RuntimeError("asked to generate before the engine got weights")

    def _request(self, prompt_ids: list[int], params: SamplingParams) -> Request:
        if params.logprobs is not None and self._args.logprobs_mode != "processed_logprobs":
            raise NotImplementedError(f"log-probs in mode {self._args.logprobs_mode}")
        if params.stop and not params.include_stop_str_in_output:
            raise NotImplementedError("stop texts that are left out")
        room = self._args.max_model_len - len(prompt_ids)
        if room < 1:
            raise ValueError(f"a prompt of {len(prompt_ids)} tokens leaves no room to generate")
        settings = (params.temperature, params.top_p, params.top_k)
        note = params.extra_args or {}
        asked = f"{self._seed}/{self._version}/{settings}/{prompt_ids}{note or ''}"
        self._asked[asked] += 1
        digest = hashlib.sha256(f"{asked}/{self._asked[asked]}".encode()).digest()
        return Request(
            prompt_ids,
            max_tokens=min(params.max_tokens or room, room),
            temperature=params.temperature,
            seed=int.from_bytes(digest[:8], "big"),
            top_p=params.top_p,
            top_k=params.top_k,
            min_tokens=params.min_tokens,
            stop=tuple(params.stop or ()),
            note=note,
        )

    def _output(self, answer: Answer, params: SamplingParams) -> RequestOutput:
        ids, values = answer
        logprobs = [{token: Logprob(value)} for token, value in zip(ids, values, strict=True)]
        text = self._tokenizer.decode(ids, skip_special_tokens=params.skip_special_tokens)
        ended = any(stop in self._tokenizer.decode(ids) for stop in params.stop or ())
        finished = ended or ids[-1] == self._tokenizer.eos_token_id
        return RequestOutput(
            [
                CompletionOutput(
                    token_ids=ids,
                    text=text,
                    logprobs=None if params.logprobs is None else logprobs,
                    finish_reason="stop" if finished else "length",
                )
            ]
        )

    def _log_generated(self, batch: list[tuple[Request, Answer]]) -> None:
        self._log(
            *(
                {
                    "event": "generate",
                    "prompt_ids": request.prompt_ids,
                    "response_ids": ids,
                    "log_probs": values,
                    "temperature": request.temperature,
                    "top_p": request.top_p,
                    "top_k": request.top_k,
                    "version": self._version,
                    **request.note,
                }
                for request, (ids, values) in batch
            )
        )

    def _log_weights(self) -> None:
        checksum = self._worker.checksum()
        self._log({"event": "weights", "version": self._version, "checksum": checksum})

    def _log(self, *records: dict[str, Any]) -> None:
        json_lines.append("COEVO_TEST_SERVER_LOG", records)


class _OutputProcessor:
    """Counts the requests that have no answer yet."""

    def __init__(self) -> None:
        self.unfinished = 0

    def get_num_unfinished_requests(self) -> int:
        return self.unfinished
