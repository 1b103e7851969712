"""Any model that litellm knows. The only file that imports litellm."""

from __future__ import annotations

import difflib
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from prompt_coevo.extras import MissingExtraError, require
from prompt_coevo.proposals import Reply, Usage
from prompt_coevo.redact import redact
from prompt_coevo.settings.reflection import ReflectionSettings
from prompt_coevo.threads import in_thread, map_in_threads

_TRANSIENT_STATUS = {408, 409, 429}
_NOT_IMPLEMENTED = 501
# What litellm's own time limit may need to take effect, before the call is given up from outside.
_GRACE_S = 0.5
_FORMAT_TOKENS = 64
_LONGEST_ERROR = 500
# What litellm says of a message that it cannot take: one of content parts, say.
_NO_TEXT = re.compile(r"validation errors? for Message\s+content")
# A missing key never reaches a server; the providers' clients say so each in its own way.
_NO_KEY = re.compile(
    r"missing (?:\S+ ){0,2}(?:credentials|api[ _]key)|api_key \S+ option must be", re.I
)
# By litellm and the client of OpenAI, with the first call.
_IMPORTED_LATE = ("httpcore", "h2", "jiter", "openai.lib.streaming.chat", "openai.resources.chat")
_MALWARE = {"1.82.7", "1.82.8"}


class LiteLLMModel:
    """A litellm model. Its replies say when asking again may help.

    That is so for rate limits, time-outs, connection errors and server errors, and for nothing else (a
    wrong key, a bad request, an address where no API answers). Raises MissingExtraError without litellm.
    """

    def __init__(self, model: str, settings: ReflectionSettings) -> None:
        self._litellm = _import_litellm()
        self._model = model
        self._settings = settings
        self._server = settings.api_base or f"the server of {model}"
        self._concurrency = settings.calls_at_once
        # Several threads may call `complete`; the limit is on all of their calls together.
        self._slots = threading.Semaphore(self._concurrency)
        self._warming = threading.Lock()
        self._warmer: threading.Thread | None = None

    @property
    def has_price(self) -> bool:
        """Whether litellm's own price list knows what a token of this model costs."""
        return self.usd(1_000_000, 1_000_000) > 0

    def usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """What so many tokens cost, by litellm's own price list; 0 if that has no price."""
        try:
            prices = self._litellm.cost_per_token(
                model=self._model,
                prompt_tokens=prompt_tokens,
                completion_tokens=completion_tokens,
            )
        except Exception:  # what litellm raises for an unknown model differs between its versions
            return 0.0
        return float(sum(prices))

    def near_name(self) -> str | None:
        """What was probably meant, by the providers and models that litellm knows; None if nothing is near.

        A server of one's own (`api_base`) has names of its own, so there only the provider is looked at.
        """
        provider, slash, name = self._model.partition("/")
        if not slash:
            provider, name = "", self._model
        if provider:
            providers = [str(getattr(one, "value", one)) for one in self._litellm.provider_list]
            provider = _nearest(provider, providers)
        if self._settings.api_base is None:
            known = self._litellm.model_cost.keys()
            name = _nearest(name, [*known, *(one.partition("/")[2] for one in known)])
        found = f"{provider}/{name}" if provider else name
        return None if found == self._model else found

    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        """One reply per prompt, in order; what cannot be answered becomes an error."""
        return map_in_threads(self._ask, prompts, self._concurrency)

    def warm(self) -> None:
        """Import what a first call imports, unless that is done: seconds, and many on a busy machine.

        In the thread of a call it would count as the server's time; and a daemon thread that holds the lock
        of an import when the interpreter ends keeps it from ending. So a thread does it that is waited for
        at exit.
        """
        with self._warming:
            if self._warmer is None:
                warmer = threading.Thread(target=self._import_the_rest, daemon=False)
                warmer.start()
                self._warmer = warmer
        self._warmer.join()

    def _import_the_rest(self) -> None:
        for name in _IMPORTED_LATE:
            with suppress(ImportError):
                import_module(name)
        with suppress(Exception):
            self._litellm.completion(
                model=self._model,
                messages=[{"role": "user", "content": "-"}],
                mock_response="-",
                api_key="-",
            )
            client = import_module("openai").OpenAI(api_key="-", base_url="http://127.0.0.1:9")
            client.chat.completions  # noqa: B018 (imported when it is looked at)

    def brief(self, prompt: str, most_tokens: int, seconds: float) -> Reply:
        """A short answer in a short time; what cannot be answered becomes an error."""
        limit = min(most_tokens, self._settings.max_tokens)
        return self._ask(prompt, limit, min(seconds, self._seconds))

    def most(self, prompt: str) -> Usage:
        """The most that a call can cost. A token has one byte at least, and the chat format adds a few."""
        return self._at_most(prompt, self._settings.max_tokens)

    def _at_most(self, prompt: str, most_tokens: int) -> Usage:
        tokens = len(prompt.encode("utf-8", "replace")) + _FORMAT_TOKENS, most_tokens
        return Usage(*tokens, usd=self.usd(*tokens))

    def _ask(
        self, prompt: str, most_tokens: int | None = None, seconds: float | None = None
    ) -> Reply:
        most_tokens, seconds = most_tokens or self._settings.max_tokens, seconds or self._seconds
        with self._slots:
            try:
                return self._read(self._call_in_time(prompt, most_tokens, seconds))
            except Exception as error:
                # A call that nobody waits for any more may be answered, and paid for.
                usage = self._at_most(prompt, most_tokens) if _is_timeout(error) else Usage()
                retry_after = _retry_after(error)
                return Reply(None, None, self._describe(error), usage, retry_after)

    @property
    def _seconds(self) -> float:
        return min(self._settings.timeout_s, self._settings.total_timeout_s)

    def _call_in_time(self, prompt: str, most_tokens: int, seconds: float) -> Any:
        """litellm limits the wait for each part of an answer; this limits the whole."""
        answer = in_thread(lambda: self._call(prompt, most_tokens, seconds))
        try:
            return answer.result(seconds + _GRACE_S)
        except TimeoutError:
            raise TimeoutError(f"no complete answer within {seconds:.3g} s") from None

    def _call(self, prompt: str, most_tokens: int, seconds: float) -> Any:
        return self._litellm.completion(
            model=self._model,
            messages=[{"role": "user", "content": prompt}],
            temperature=self._settings.temperature,
            max_tokens=most_tokens,
            timeout=seconds,
            api_base=self._settings.api_base,
            api_key=self._key or None,
            num_retries=0,
            max_retries=0,
        )

    def _read(self, response: Any) -> Reply:
        usage = self._usage(response)
        if not response.choices:
            return Reply(None, error=self._no_api("without choices"), usage=usage)
        choice = response.choices[0]
        text, reason = choice.message.content or "", choice.finish_reason
        if not text.strip() and reason != "length":
            reason = _in_place_of_text(choice.message) or reason
        return Reply(text, reason, usage=usage)

    def _usage(self, response: Any) -> Usage:
        usage = getattr(response, "usage", None)
        try:
            # By the name that was asked for: a server may call its models as it likes.
            usd = float(
                self._litellm.completion_cost(completion_response=response, model=self._model)
            )
        except Exception:  # a model without a known price
            usd = 0.0
        return Usage(
            prompt_tokens=getattr(usage, "prompt_tokens", None) or 0,
            completion_tokens=getattr(usage, "completion_tokens", None) or 0,
            usd=usd,
        )

    @property
    def _key(self) -> str:
        return self._settings.api_key.get_secret_value() if self._settings.api_key else ""

    def _describe(self, error: Exception) -> str:
        text = f"{type(error).__name__}: {error}"
        if _NO_TEXT.search(text):
            return redact(
                f"{self._server} answered a message whose content is no text, which litellm cannot read; "
                "have the server answer with plain text, not with parts",
                self._key,
            )
        if _NO_KEY.search(text):
            first = text.partition("\n")[0].rpartition(" - ")[2]
            return redact(f"AuthenticationError: {first}", self._key)[:_LONGEST_ERROR]
        html = _is_html(text)
        if _is_unreadable(error) or (html and not _is_transient(error)):
            return self._no_api("HTML, not JSON" if html else "something else than a completion")
        # Cut last: half a key would not be recognised.
        return redact(text, self._key)[:_LONGEST_ERROR]

    def _no_api(self, answer: str) -> str:
        return redact(
            f"{self._server} answered {answer}: is reflection.api_base the address of an "
            "OpenAI-compatible server, usually ending in /v1?",
            self._key,
        )


def _in_place_of_text(message: Any) -> str | None:
    """What a message without text holds, as a finish reason."""
    own = getattr(message, "provider_specific_fields", None) or {}
    if getattr(message, "tool_calls", None):
        return "tool_calls"
    if getattr(message, "refusal", None) or own.get("refusal"):
        return "refusal"
    return "reasoning" if getattr(message, "reasoning_content", None) else None


def _nearest(name: str, known: Iterable[str]) -> str:
    """The known name most like this one, or this one."""
    names = set(known)
    close = () if name in names else difflib.get_close_matches(name, sorted(names), 1, 0.75)
    return next(iter(close), name)


def _import_litellm() -> Any:
    # Without this, litellm fetches its price list over the network when it is imported.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    require("litellm", extra="llm", purpose="a reflection model")
    _refuse_malware()
    import litellm

    litellm.suppress_debug_info = True
    return litellm


def _refuse_malware() -> None:
    with suppress(PackageNotFoundError):
        if (installed := version("litellm")) in _MALWARE:
            raise MissingExtraError(
                f"litellm {installed} is installed, which was reported as malware and is not imported; "
                "uninstall it, replace the keys that this machine holds, and run: "
                "pip install 'prompt-coevo[llm]'"
            )


def _is_transient(error: BaseException) -> bool:
    status = _status(error)
    if _NO_KEY.search(str(error)):
        return False
    if status is None:
        return isinstance(error, (TimeoutError, ConnectionError))
    if status in _TRANSIENT_STATUS:
        return True
    return status >= 500 and status != _NOT_IMPLEMENTED and not _is_unreadable(error)


def _is_timeout(error: BaseException) -> bool:
    return isinstance(error, TimeoutError) or _status(error) == 408


def _is_unreadable(error: BaseException) -> bool:
    """Whether the server answered, but with something that litellm cannot read.

    litellm reports that as a server error as well (or as status 200); only real ones have an error of
    the HTTP client behind them.
    """
    import httpx

    status = _status(error)
    if status is None or 300 <= status < 500:
        return False
    return not any(isinstance(cause, httpx.HTTPError) for cause in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _status(error: BaseException) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def _retry_after(error: BaseException) -> float | None:
    """The seconds that the server asks to wait, 0 if it does not say, or names a date; None for an error
    that another attempt would meet again."""
    if not _is_transient(error):
        return None
    headers = getattr(error, "litellm_response_headers", None) or {}
    try:
        return float(headers.get("retry-after", 0))
    except ValueError:
        return 0.0


def _is_html(text: str) -> bool:
    return "<html" in text.lower() or "<!doctype html" in text.lower()
