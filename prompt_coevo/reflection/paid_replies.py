"""A language model whose calls are on disk before they are sent, and its replies before they are used."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from prompt_coevo.lines import JSON
from prompt_coevo.markers import PROJECT
from prompt_coevo.proposals import LanguageModel, Reply, Usage
from prompt_coevo.redact import redact
from prompt_coevo.reflection.ledger import Call, Ledger
from prompt_coevo.reflection.patience import patiently
from prompt_coevo.reflection.spending import NOTHING, Spending, plausible
from prompt_coevo.threads import in_thread, map_in_threads, work_under_way

logger = logging.getLogger(PROJECT)

# In addition to the time that a model's own limit needs to take effect.
_GRACE_S = 1.0
_CLOSED = "the run was given up, so no more calls are made"


@dataclass(frozen=True)
class _Asking:
    """A prompt under way, and its place among all prompts of the run."""

    prompt: str
    request: str
    place: tuple[int, int]


class PaidReplies:
    """Wrap a model and record every call in the ledger before it is sent, and its outcome at once.

    A resumed run repeats the decisions that it made after the checkpoint; the same requests then get the
    replies in the ledger, each of them once. Calls that `spending` does not allow are not sent and return
    an error. Replies with `retry_after` are retried, each time as a separate call, within `total_timeout_s`
    in all. At most `at_once` calls are under way, each in its thread; a model with a true attribute
    `batched` gets all prompts at once instead. Thread-safe.
    """

    def __init__(
        self,
        model: LanguageModel,
        identity: Mapping[str, JSON],
        ledger: Ledger,
        *,
        spending: Spending | None = None,
        total_timeout_s: float = 300.0,
        at_once: int = 1,
        secrets: Sequence[str] = (),
        note: Callable[..., None] = lambda event, **fields: None,
    ) -> None:
        self._model = model
        self._identity = repr(sorted(identity.items()))
        self._ledger = ledger
        self._spending = spending or Spending({})
        self._total_timeout_s = total_timeout_s
        self._at_once = at_once
        self._secrets = secrets
        self._note = note
        self._room = threading.Condition()
        """Held while a call is compared with the budget and recorded; notified when a call ends.
        Acquired before the ledger's own lock, never after it."""
        self._reserved: dict[int, int] = {}
        """By batch: calls that the budget pays for and that are not sent yet. Under `_room`."""
        self._calls_of: dict[int, list[int]] = {}
        """By batch: its calls so far, including those of earlier attempts whose replies it reuses."""
        self._complete: list[tuple[Future[Any], list[int]]] = []
        """The calls of complete batches whose replies are still being processed in the background."""
        self._batches = 0
        self._seen: Mapping[str, float] | None = None
        """The totals up to which budget warnings were given."""
        self._told_of_usage = False
        self._out = 0
        """Calls whose outcome is not in the ledger yet. Under `_room`, as is `_closed`."""
        self._closed = False
        self.last_error: str | None = None
        """The error of the latest failed call of this attempt."""

    @property
    def totals(self) -> dict[str, float]:
        """The totals of the run's calls, over all its attempts."""
        return self._ledger.totals

    @property
    def under_way(self) -> list[int]:
        """The calls whose replies may have arrived but are in no plugin's state yet: of incomplete batches,
        of batches still processed in the background, or unused ones of an earlier attempt."""
        with self._room:
            complete = [calls for work, calls in self._complete if not work.done()]
            batches = [*self._calls_of.values(), *complete, self._ledger.unused]
            return sorted({number for calls in batches for number in calls})

    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        """Return one reply per prompt, in order. If the budget is too small, send only the first ones."""
        requests = [self.request_hash(prompt) for prompt in prompts]
        with self._room:
            if self._seen is None:
                self._seen = self.totals
            self._batches = batch = max(self._batches, self._ledger.position) + 1
            known = {
                index: answer
                for index, request in enumerate(requests)
                if (answer := self._ledger.earlier_answer(request)) is not None
            }
            self._calls_of[batch] = [number for number, _ in known.values()]
            replies = {index: reply for index, (_, reply) in known.items()}
            missing = [index for index in range(len(prompts)) if index not in replies]
            count = int(min(len(missing), self._spending.calls_left(self._calls(self.totals))))
            self._reserved[batch] = count
            refusal = self._spending.refusal(self._calls(self.totals))
        replies.update((index, Reply(None, error=refusal)) for index in missing[count:])
        asked = [_Asking(prompts[i], requests[i], (batch, i)) for i in missing[:count]]
        try:
            fresh = self._ask(asked)
        finally:
            with self._room:
                del self._reserved[batch]
                self._keep_until_known(self._calls_of.pop(batch))
        replies.update(zip(missing, fresh, strict=False))
        return [replies[index] for index in range(len(prompts))]

    @property
    def can_be_brief(self) -> bool:
        """True if the model has a method `brief`."""
        return hasattr(self._model, "brief")

    def warm(self) -> None:
        """Prepare the model for its first call, if it has a method `warm`, before the time of a call (or of
        `probe`) is measured."""
        if (warm := getattr(self._model, "warm", None)) is not None:
            with suppress(Exception):  # the call itself says what is wrong
                warm()

    def probe(self, prompt: str, most_tokens: int, seconds: float) -> Reply:
        """Ask for one short answer, for the preflight: outside the ledger and the budgets, without retries,
        and never answered by an earlier attempt's reply."""
        model: Any = self._model
        work = in_thread(lambda: self._readable(model.brief(prompt, most_tokens, seconds)))
        try:
            return work.result(seconds + _GRACE_S)
        except TimeoutError:
            return Reply(None, error=f"Timeout: no answer within {seconds:.3g} s", retry_after=0.0)
        except Exception as error:
            return Reply(None, error=self._told(error))

    def near_name(self) -> str | None:
        """Return the name that was probably meant by the model's name, if the model can tell."""
        near = getattr(self._model, "near_name", None)
        return None if near is None else near()

    def usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the price of so many tokens; 0 for a model without a price."""
        price = getattr(self._model, "usd", None)
        return 0.0 if price is None else float(price(prompt_tokens, completion_tokens))

    def close(self, within: float) -> None:
        """Send no more calls and no retries. Wait at most `within` seconds for calls under way.

        Later replies are still recorded, because they are billed.
        """
        with self._room:
            self._closed = True
            self._room.notify_all()
            self._room.wait_for(lambda: not self._out, within)

    def refusal(self) -> str | None:
        """Say why no further call is allowed: budgets, or a closed run. Return None if one is."""
        if self._closed:
            return _CLOSED
        return self._spending.refusal(self.totals)

    def request_hash(self, prompt: str) -> str:
        """Return the id of a request: a hash of the model, its parameters and the prompt."""
        return hashlib.sha256(f"{self._identity}\0{prompt}".encode("utf-8", "replace")).hexdigest()

    # Inside

    def _keep_until_known(self, calls: list[int]) -> None:
        """Keep a batch's calls until its background work is done: only then a state can include them."""
        self._complete = [one for one in self._complete if not one[0].done()]
        if (work := work_under_way()) is not None:
            self._complete.append((work, calls))

    def _ask(self, askings: Sequence[_Asking]) -> list[Reply]:
        if askings:
            self.warm()
        if getattr(self._model, "batched", False):
            return self._attempts(askings)
        if self._at_once == 1:
            return [self._ask_one(asking) for asking in askings]
        return map_in_threads(self._ask_one, askings, self._at_once)

    def _ask_one(self, asking: _Asking) -> Reply:
        return patiently(
            lambda again: self._attempts([asking], again=again)[0], self._total_timeout_s
        )

    def _attempts(self, askings: Sequence[_Asking], *, again: bool = False) -> list[Reply]:
        """Make one call per prompt: record all of them, ask the model, record all outcomes."""
        # Calls of one batch are sent together: one that waited for another would wait forever.
        may_wait = len(askings) == 1
        begun = [(one, self._begin(one, again=again, may_wait=may_wait)) for one in askings]
        out = [(call, asking.prompt) for asking, call in begun if isinstance(call, Call)]
        start = time.monotonic()
        try:
            replies = self._answers([prompt for _, prompt in out])
        except BaseException as error:
            lost = Reply(None, error=self._told(error))
            for call, prompt in out:
                self._end(call, prompt, lost, time.monotonic() - start)
            raise
        each = (time.monotonic() - start) / max(1, len(out))
        ended = iter([self._end(*sent, one, each) for sent, one in zip(out, replies, strict=True)])
        return [next(ended) if isinstance(call, Call) else call for _, call in begun]

    def _answers(self, prompts: list[str]) -> list[Reply]:
        """Return the model's replies; turn an exception or a wrong number of replies into errors."""
        if not prompts:
            return []
        try:
            replies = [self._readable(reply) for reply in self._model.complete(prompts)]
        except Exception as error:
            return [Reply(None, error=self._told(error)) for _ in prompts]
        if len(replies) != len(prompts):
            text = f"the model gave {len(replies)} replies to {len(prompts)} prompts"
            return [Reply(None, error=text) for _ in prompts]
        return replies

    def _told(self, error: BaseException) -> str:
        return redact(f"{type(error).__name__}: {error}", *self._secrets)

    def _begin(self, asking: _Asking, *, again: bool, may_wait: bool) -> Call | Reply:
        """Record a call in the ledger and return it, or an error reply if it cannot be sent."""
        most = self._most(asking.prompt)
        with self._room:
            if not again:
                self._reserved[asking.place[0]] -= 1  # it is sent now, or never
            # Wait: calls under way may turn out cheaper than their highest possible cost.
            while refusal := self._refusal(self._ledger.most_totals, most):
                if self._closed or not may_wait or self._refusal(self._ledger.totals, most):
                    return Reply(None, error=refusal)
                self._room.wait()
            try:
                call = self._ledger.asked(asking.request, asking.place, most)
            except OSError as error:
                return Reply(None, error=_unwritable("no call is made", error))
            self._out += 1
            if asking.place[0] in self._calls_of:  # else the batch was given up
                self._calls_of[asking.place[0]].append(call.number)
        return call

    def _refusal(self, totals: Mapping[str, float], most: Usage) -> str | None:
        if self._closed:
            return _CLOSED
        return self._spending.refusal(self._calls(totals), most)

    def _calls(self, totals: Mapping[str, float]) -> dict[str, float]:
        """Add the reserved calls to totals."""
        return {**totals, "calls": totals["calls"] + sum(self._reserved.values())}

    def _most(self, prompt: str) -> Usage:
        most = getattr(self._model, "most", None)
        return Usage() if most is None else plausible(most(prompt))

    def _end(self, call: Call, prompt: str, reply: Reply, seconds: float) -> Reply:
        try:
            self._ledger.answered(call, reply, seconds)
        except OSError as error:
            # A resumed run could not repeat a decision made with an unrecorded reply.
            reply = Reply(None, error=_unwritable("the reply is not used", error))
        with self._room:
            self._out -= 1
            self._room.notify_all()
            self.last_error = reply.error or self.last_error
            before, self._seen = self._seen, self._ledger.totals
            events = self._spending.events(before or NOTHING, self._seen)
        self._note("reply", call=call.number, request=call.request, prompt=prompt, **asdict(reply))
        for event in events:
            logger.warning("%s", event)
            self._note(event.event, name=event.name, spent=event.spent, limit=event.limit)
        return reply

    def _readable(self, reply: object) -> Reply:
        """Clean a reply before it is recorded and used: a usage that can be summed (one NaN would spoil all
        totals), and no keys, which a server may quote. Anything that is not a valid reply is an error."""
        if not isinstance(reply, Reply):
            return Reply(None, error=f"the model gave {type(reply).__name__}, not a Reply")
        usage = plausible(reply.usage)
        for said in (reply.text, reply.error):
            if not isinstance(said, str | None):
                problem = f"the model gave {type(said).__name__} where a reply has a text"
                return Reply(None, error=problem, usage=usage)
        if usage != reply.usage:
            self._tell_of_usage(reply.usage)
        text = None if reply.text is None else redact(reply.text, *self._secrets)
        error = None if reply.error is None else redact(reply.error, *self._secrets)
        reason = reply.finish_reason if isinstance(reply.finish_reason, str) else None
        reason = reason and redact(reason, *self._secrets)
        later = reply.retry_after if isinstance(reply.retry_after, int | float) else None
        return Reply(text, reason, error, usage, later)

    def _tell_of_usage(self, usage: object) -> None:
        with self._room:
            told, self._told_of_usage = self._told_of_usage, True
        if not told:
            self._note("usage_unreadable", usage=repr(usage))
            logger.warning(
                "the reflection model reports that a call cost %r; implausible numbers count as 0",
                usage,
            )


def _unwritable(consequence: str, error: OSError) -> str:
    return f"the ledger of calls cannot be written, so {consequence}: {error.strerror}"
