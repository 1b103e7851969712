"""Check with one short call before the first step that the reflection model answers.

The call uses the run's own model, at every start and every resume. It is outside the budgets and the
ledger: no decision depends on it that a resumed run would have to repeat. Its cost is on the page and in
the journal.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from prompt_coevo.preflight.page import Line, Status, plural
from prompt_coevo.proposals import Reply, Usage
from prompt_coevo.redact import redact
from prompt_coevo.reflection.paid_replies import PaidReplies
from prompt_coevo.settings.reflection import ReflectionSettings
from prompt_coevo.visible import in_a_line

PROMPT: Final = "Answer with the one word: ready"
MOST_TOKENS: Final = 16
ATTEMPTS: Final = 3
PAUSE_S: Final = 1.0
_LONGEST: Final = 600
"""The most characters of an error, so that the remedy after it still fits on the page."""
_TOPIC: Final = "reflection"
_NOT_ASKED: Final = {
    "function": "a python function, which is not called until it is needed",
    "self": "the initial policy itself, which is not loaded until it is needed",
}
_TWICE: Final = re.compile(r"^(\w+): (?:litellm\.)?\1: (?:\1: )?")
# litellm's additions after the sentence that matters.
_ASIDE: Final = re.compile(r"\n\s*(?:Pass model as|Traceback )")
# A thinking model may need more tokens than we allow here, but it exists and the key is right.
_CUT_OFF: Final = re.compile(r"max_tokens or model output limit was reached", re.I)
# Errors about limits per minute also link the billing page, but say when to try again.
_NO_QUOTA: Final = re.compile(r"insufficient_quota|exceeded your current quota", re.I)
_COME_BACK: Final = re.compile(r"(?:try again|retry) in\b", re.I)
_BUSY: Final = re.compile(r"^(?:RateLimitError|ServiceUnavailableError)\b|overloaded", re.I)


@dataclass(frozen=True)
class Answer:
    """The last reply, with the number of calls, the seconds and the usage of all attempts."""

    reply: Reply
    calls: int
    seconds: float
    usage: Usage

    @property
    def alive(self) -> bool:
        """True if the model exists and answers this account."""
        error = self.reply.error
        return error is None or bool(_CUT_OFF.search(error))

    @property
    def busy(self) -> bool:
        """True if the server answered with a rate limit or an overload, and the account has quota."""
        error = self.reply.error or ""
        return bool(_BUSY.search(error)) and not _has_no_quota(error)


def check_reflection(
    settings: ReflectionSettings, model: PaidReplies | None
) -> Iterator[Line | Answer]:
    """Yield the line about the reflection model; if it was called, yield the answer first."""
    backend = settings.backend_in_use
    if model is None:
        yield Line("note", _TOPIC, "nothing in this run uses a reflection model")
    elif backend in _NOT_ASKED:
        yield Line("note", _TOPIC, _NOT_ASKED[str(backend)])
    elif not model.can_be_brief:
        yield Line("note", _TOPIC, f"{name_of(settings)} is not called: it has no method `brief`")
    elif refusal := model.refusal():
        yield Line("warning", _TOPIC, f"{name_of(settings)} is not called any more: {refusal}")
    else:
        answer = ask(model, settings)
        yield answer
        yield _line(settings, answer, None if answer.alive else model.near_name())


def ask(model: PaidReplies, settings: ReflectionSettings) -> Answer:
    """Call the model, with retries after transient errors, within `reflection.timeout_s` in all."""
    model.warm()
    start, calls, usage = time.monotonic(), 0, Usage()
    while True:
        left = settings.timeout_s - (time.monotonic() - start)
        reply = model.probe(PROMPT, MOST_TOKENS, max(left, 0.05))
        calls += 1
        usage = Usage(
            usage.prompt_tokens + reply.usage.prompt_tokens,
            usage.completion_tokens + reply.usage.completion_tokens,
            usage.usd + reply.usage.usd,
        )
        seconds = time.monotonic() - start
        pause = max(PAUSE_S * calls, reply.retry_after or 0.0)
        over = calls == ATTEMPTS or seconds + pause >= settings.timeout_s
        if reply.error is None or reply.retry_after is None or over:
            return Answer(reply, calls, seconds, usage)
        time.sleep(pause)


def name_of(settings: ReflectionSettings) -> str:
    """Name the model in a sentence."""
    name = settings.model or settings.backend_in_use
    return f"the reflection model {name!r}"


def _line(settings: ReflectionSettings, answer: Answer, near: str | None) -> Line:
    name = name_of(settings)
    calls = f"{plural(answer.calls, 'call')} outside of the budgets"
    if answer.alive:
        return Line("ok", _TOPIC, f"{name} answered in {answer.seconds:.1f} s ({calls})")
    said = _ASIDE.split(answer.reply.error or "")[0]
    reason = _TWICE.sub(r"\1: ", in_a_line(said, _LONGEST)).rstrip(". ")
    status: Status = "warning" if answer.busy else "problem"
    what = "is up, but busy" if answer.busy else "does not answer"
    return Line(status, _TOPIC, f"{name} {what}: {reason}; {_remedy(reason, settings, near)}")


def _remedy(reason: str, settings: ReflectionSettings, near: str | None) -> str:
    kind = reason.partition(":")[0]
    server = redact(settings.api_base) if settings.api_base else "the provider's server"
    nowhere = "LLM Provider NOT provided" in reason
    if near is not None and (nowhere or kind == "NotFoundError"):
        return f"did you mean {near}?"
    if nowhere:
        return "write the provider in front of the name, such as openai/gpt-5"
    if _has_no_quota(reason):
        return "the account has no quota left: pay for more, or name another model"
    if kind in ("AuthenticationError", "PermissionDeniedError"):
        return "set the provider's environment variable for the key (OPENAI_API_KEY for openai/...)"
    if kind == "NotFoundError":
        return "is the name of reflection.model right, and reflection.api_base, if it is set?"
    if kind in ("Timeout", "TimeoutError"):
        return f"is {server} up? If it is just slow, raise reflection.timeout_s"
    if "onnection" in reason:
        return f"is {server} up, and can this machine reach it?"
    if _BUSY.search(reason):
        return "training begins, and calls will wait for it"
    return "fix that, or name another model"


def _has_no_quota(error: str) -> bool:
    return bool(_NO_QUOTA.search(error)) and not _COME_BACK.search(error)
