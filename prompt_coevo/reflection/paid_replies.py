"""A language model whose replies are on disk before they are used: a resumed run asks for fewer again."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from prompt_coevo.markers import PROJECT
from prompt_coevo.proposals import LanguageModel, Reply, Usage
from prompt_coevo.reflection.spending import NOTHING, Spending
from prompt_coevo.reflection.usage import plausible

logger = logging.getLogger(PROJECT)

_LONGEST_KEPT = 100_000


def _no_note(event: str, **fields: Any) -> None: ...


class PaidReplies:
    """Wraps a model: writes every reply down first, and answers from an earlier attempt's replies.

    A run that was killed and resumed decides again what it had decided after the checkpoint; the
    same requests then get the replies that were recorded, each of them once. `record(replies)` is
    called with one dict per new reply before any of them is returned, and after all calls of a batch:
    a kill before that loses the whole batch. `totals` is what all replies that were given out have
    cost, as far as this attempt and its checkpoint know; what `spending` does not allow is not asked
    for and answered by an error. Usage that is no plausible number counts as 0, and is told of once.
    Several threads may call at once.
    """

    def __init__(
        self,
        model: LanguageModel,
        identity: Mapping[str, Any],
        record: Callable[[list[dict[str, Any]]], None],
        spending: Spending | None = None,
        note: Callable[..., None] = _no_note,
    ) -> None:
        self._model = model
        self._identity = repr(sorted(identity.items()))
        self._record = record
        self._spending = spending or Spending({})
        self._note = note
        self._paid: defaultdict[str, deque[Reply]] = defaultdict(deque)
        self._lock = threading.Lock()
        self._under_way = 0
        self._told_of_usage = False
        self.totals = dict(NOTHING)

    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        """One reply per prompt, in order. If the budget does not pay for all, the first ones are asked."""
        hashes = [self.request_hash(prompt) for prompt in prompts]
        with self._lock:
            replies = {
                i: self._paid[key].popleft() for i, key in enumerate(hashes) if self._paid[key]
            }
            self.totals["calls"] += len(replies)
            for reply in replies.values():
                self._count_usage(reply)
            missing = [index for index in range(len(prompts)) if index not in replies]
            count = self._spending.affordable(len(missing), self.totals, self._under_way)
            refusal = self._spending.refusal(self.totals) if count < len(missing) else None
            self._under_way += count
        replies.update((index, Reply(None, error=refusal)) for index in missing[count:])
        asked = missing[:count]
        if asked:
            fresh = self._ask([prompts[i] for i in asked], [hashes[i] for i in asked])
            replies.update(zip(asked, fresh, strict=True))
        return [replies[index] for index in range(len(prompts))]

    def request_hash(self, prompt: str) -> str:
        """Identifies a request: the model with its parameters, and the prompt."""
        return hashlib.sha256(f"{self._identity}\0{prompt}".encode("utf-8", "replace")).hexdigest()

    def reuse(self, recorded: Iterable[Mapping[str, Any]]) -> None:
        """Take up the replies that an earlier attempt recorded."""
        for entry in recorded:
            if entry.get("text") is not None and not entry.get("shortened"):
                usage = plausible(Usage(**entry["usage"]))
                reply = Reply(entry["text"], entry["finish_reason"], None, usage)
                self._paid[entry["request"]].append(reply)

    def _ask(self, prompts: list[str], hashes: list[str]) -> list[Reply]:
        replies: list[Reply] = []
        start = time.monotonic()
        try:
            replies = [self._readable(reply) for reply in self._model.complete(prompts)]
        finally:
            self._count(len(prompts), replies, time.monotonic() - start)
        self._record(
            [
                {"request": key, **_shortened(reply)}
                for key, reply in zip(hashes, replies, strict=True)
            ]
        )
        return replies

    def _readable(self, reply: Reply) -> Reply:
        """The reply with a usage that can be counted: one NaN would spoil the totals and the state."""
        usage = plausible(reply.usage)
        if usage != reply.usage:
            self._tell_of_usage(reply.usage)
        return replace(reply, usage=usage)

    def _tell_of_usage(self, usage: object) -> None:
        with self._lock:
            told, self._told_of_usage = self._told_of_usage, True
        if not told:
            self._note("usage_unreadable", usage=repr(usage))
            logger.warning(
                "the reflection model says that a call cost %r; what is no plausible number counts as 0",
                usage,
            )

    def _count(self, calls: int, replies: Sequence[Reply], seconds: float) -> None:
        with self._lock:
            before = dict(self.totals)
            self._under_way -= calls
            self.totals["calls"] += calls
            for reply in replies:
                self._count_usage(reply)
            self.totals["seconds"] += seconds
            events = self._spending.events(before, self.totals)
        for event in events:
            logger.warning("%s", event)
            self._note(event.event, name=event.name, spent=event.spent, limit=event.limit)

    def _count_usage(self, reply: Reply) -> None:
        self.totals["errors"] += reply.error is not None
        self.totals["prompt_tokens"] += reply.usage.prompt_tokens
        self.totals["completion_tokens"] += reply.usage.completion_tokens
        self.totals["usd"] += reply.usage.usd


def _shortened(reply: Reply) -> dict[str, Any]:
    entry = asdict(reply)
    if reply.text is not None and len(reply.text) > _LONGEST_KEPT:
        entry["text"] = reply.text[:_LONGEST_KEPT]
        entry["shortened"] = len(reply.text)
    return entry
