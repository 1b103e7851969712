"""A language model whose replies are on disk before they are used, so that none is paid for twice."""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from prompt_coevo.proposals import LanguageModel, Reply, Usage

_LONGEST_KEPT = 100_000


class PaidReplies:
    """Wraps a model: writes every reply down first, and answers from an earlier attempt's replies.

    A run that was killed and resumed decides again what it had decided after the checkpoint; the
    same requests then get the replies already paid for, each of them once. `record(replies)` is
    called with one dict per new reply before any of them is returned.
    """

    def __init__(
        self,
        model: LanguageModel,
        identity: Mapping[str, Any],
        record: Callable[[list[dict[str, Any]]], None],
    ) -> None:
        self._model = model
        self._identity = repr(sorted(identity.items()))
        self._record = record
        self._paid: defaultdict[str, deque[Reply]] = defaultdict(deque)
        self.totals = {
            "calls": 0,
            "errors": 0,
            "prompt_tokens": 0,
            "completion_tokens": 0,
            "usd": 0.0,
        }

    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        """One reply per prompt, in order."""
        hashes = [self.request_hash(prompt) for prompt in prompts]
        replies = [self._paid[key].popleft() if self._paid[key] else None for key in hashes]
        missing = [index for index, reply in enumerate(replies) if reply is None]
        if not missing:
            return [reply for reply in replies if reply is not None]
        fresh = self._model.complete([prompts[index] for index in missing])
        self._record(
            [
                {"request": hashes[index], **_shortened(reply)}
                for index, reply in zip(missing, fresh, strict=True)
            ]
        )
        for index, reply in zip(missing, fresh, strict=True):
            replies[index] = reply
            self._count(reply)
        return [reply for reply in replies if reply is not None]

    def request_hash(self, prompt: str) -> str:
        """Identifies a request: the model with its parameters, and the prompt."""
        return hashlib.sha256(f"{self._identity}\0{prompt}".encode("utf-8", "replace")).hexdigest()

    def reuse(self, recorded: Iterable[Mapping[str, Any]]) -> None:
        """Take up the replies that an earlier attempt recorded."""
        for entry in recorded:
            if entry.get("text") is not None and not entry.get("shortened"):
                reply = Reply(entry["text"], entry["finish_reason"], None, Usage(**entry["usage"]))
                self._paid[entry["request"]].append(reply)

    def _count(self, reply: Reply) -> None:
        self.totals["calls"] += 1
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
