"""Answer requests with a transformers model; all that wait at the same time form one batch.

Its log-probs are `COEVO_TEST_DRIFT` above the model's, as an engine of another precision is off.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from standins.sampling import Request, log_probs, sample
from standins.script import load_script

_QUIET = 0.01  # seconds without a new request after which a batch starts

Answer = tuple[list[int], list[float]]
"""Token ids up to and with the end token or a stop text, and their log-probs."""

Log = Callable[[list[tuple[Request, Answer]]], None]


@dataclass(frozen=True)
class _Waiting:
    request: Request
    answer: asyncio.Future[Answer]


class Batcher:
    """Generate in a separate thread. Its methods belong to one event loop."""

    def __init__(self, model: Any, tokenizer: Any, log: Log) -> None:
        """Give `log` every batch with its answers before the callers get them."""
        self._model, self._tokenizer, self._log = model, tokenizer, log
        self._script = load_script()
        self._drift = float(os.environ.get("COEVO_TEST_DRIFT", "0"))
        self._waiting: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1)
        self._lock = asyncio.Lock()
        self._aborted = threading.Event()

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._task)

    async def answer(self, request: Request) -> Answer:
        waiting = _Waiting(request, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._task is None:
            self._task = asyncio.create_task(self._answer_all())
        return await waiting.answer

    async def abort(self) -> None:
        """Answer all callers with what exists so far; return once nothing is in flight."""
        self._aborted.set()
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.answer.set_result(([], []))
        while self._task is not None:
            await asyncio.sleep(_QUIET)
        self._aborted.clear()

    @asynccontextmanager
    async def between_batches(self) -> AsyncIterator[None]:
        """Wait for the current batch to end, and keep the next one from starting."""
        async with self._lock:
            yield

    async def _answer_all(self) -> None:
        """Collect requests until no more come, answer them together, and again until none wait."""
        while self._waiting:
            count = 0
            while count < len(self._waiting):
                count = len(self._waiting)
                await asyncio.sleep(_QUIET)
            async with self._lock:
                if self._waiting:
                    await self._answer_batch()
        self._task = None

    async def _answer_batch(self) -> None:
        batch, self._waiting = self._waiting, []
        requests = [waiting.request for waiting in batch]
        try:
            answers = await asyncio.get_running_loop().run_in_executor(
                self._thread, self._generate, requests
            )
        except Exception as error:
            for waiting in batch:
                waiting.answer.set_exception(error)
            return
        stopped = [self._stopped(*pair) for pair in zip(requests, answers, strict=True)]
        answers = [(ids, [value + self._drift for value in values]) for ids, values in stopped]
        self._log(list(zip(requests, answers, strict=True)))
        for waiting, answer in zip(batch, answers, strict=True):
            waiting.answer.set_result(answer)

    def _generate(self, requests: list[Request]) -> list[Answer]:
        eos, pad = self._tokenizer.eos_token_id, self._tokenizer.pad_token_id
        answers = sample(self._model, requests, eos, pad, self._aborted.is_set)
        if self._script is None:
            return answers
        replaced = {}
        for place, (request, (sampled, _)) in enumerate(zip(requests, answers, strict=True)):
            ids = self._scripted(request, sampled)
            if ids is not None:
                replaced[place] = ids
        if replaced:
            asked = [requests[place] for place in replaced]
            values = log_probs(
                self._model,
                [request.prompt_ids for request in asked],
                list(replaced.values()),
                [request.temperature for request in asked],
                pad,
            )
            for (place, ids), logps in zip(replaced.items(), values, strict=True):
                answers[place] = (ids, logps)
        return answers

    def _stopped(self, request: Request, answer: Answer) -> Answer:
        """Return the answer up to and including the first of the request's stop texts."""
        ids, values = answer
        for length in range(1, len(ids) if request.stop else 0):
            text = self._tokenizer.decode(ids[:length])
            if any(stop in text for stop in request.stop):
                return ids[:length], values[:length]
        return answer

    def _scripted(self, request: Request, ids: list[int]) -> list[int] | None:
        """Return the script's tokens, closed by the end token, as far as there is room."""
        assert self._script is not None
        text = self._script(
            self._tokenizer.decode(request.prompt_ids),
            self._tokenizer.decode(ids, skip_special_tokens=True),
        )
        if text is None:
            return None
        tokens = self._tokenizer.encode(text, add_special_tokens=False)
        return [*tokens, self._tokenizer.eos_token_id][: request.max_tokens]
