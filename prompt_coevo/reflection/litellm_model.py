"""Any model that litellm supports. The only file that imports litellm."""

from __future__ import annotations

import difflib
import logging
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from prompt_coevo.extras import MissingExtraError, require
from prompt_coevo.markers import PROJECT
from prompt_coevo.proposals import Reply, Usage
from prompt_coevo.redact import redact
from prompt_coevo.reflection.bounded_endpoint import BoundedEndpoint, EndpointFaultError
from prompt_coevo.reflection.litellm_errors import (
    NO_KEY,
    is_html,
    is_transient,
    is_unreadable,
    may_be_paid,
    misuse,
    retry_after,
)
from prompt_coevo.settings.reflection import ReflectionSettings
from prompt_coevo.threads import in_thread, map_in_threads

logger = logging.getLogger(PROJECT)

# Time for litellm's own limit to take effect before the call is abandoned from outside.
_GRACE_S = 0.5
_FORMAT_TOKENS = 64
_LONGEST_ERROR = 500
# litellm's error for a message that it cannot read, such as one of content parts.
_NO_TEXT = re.compile(r"validation errors? for Message\s+content")
# Modules that litellm and OpenAI's client import with the first call.
_IMPORTED_LATE = ("httpcore", "h2", "jiter", "openai.lib.streaming.chat", "openai.resources.chat")
_MALWARE = {"1.82.7", "1.82.8"}
# litellm would keep a client of Azure's for calls that are not ours.
_UNBOUNDED = ("azure", "azure_text")


class LiteLLMModel:
    """A litellm model. Its replies have `retry_after` where a retry may help.

    That is the case for rate limits, time-outs, connection errors and server errors, but not for a wrong
    key, a bad request, or an address without an API. Raise MissingExtraError without litellm.
    """

    def __init__(self, model: str, settings: ReflectionSettings) -> None:
        self._litellm = _import_litellm()
        self._model = model
        self._settings = settings
        self._server = settings.api_base or f"the server of {model}"
        self._unbounded = model.partition("/")[0] in _UNBOUNDED
        self._concurrency = settings.calls_at_once
        # Several threads may call `complete`; the limit is for all of them together.
        self._slots = threading.Semaphore(self._concurrency)
        self._warming = threading.Lock()
        self._warmer: threading.Thread | None = None

    @property
    def has_price(self) -> bool:
        """True if litellm's price list has a price for the model."""
        return self.usd(1_000_000, 1_000_000) > 0

    def usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the price of so many tokens by litellm's price list; 0 if the model is not in it."""
        try:
            prices = self._litellm.cost_per_token(
                model=self._model,
                prompt_tokens=prompt_tokens,
                completion_tokens=completion_tokens,
            )
        except Exception:  # for an unknown model, litellm's versions raise different errors
            return 0.0
        return float(sum(prices))

    def near_name(self) -> str | None:
        """Return the known provider or model name closest to this one; None if none is close.

        With an `api_base` only the provider is corrected: such a server chooses its model names freely.
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
        """Return one reply per prompt, in order. A failed call becomes an error."""
        return map_in_threads(self._ask, prompts, self._concurrency)

    def warm(self) -> None:
        """Import once what a first call imports; it takes seconds, many on a busy machine.

        In a call's own thread the time would count as the server's. And a daemon thread that holds an
        import lock at exit blocks the interpreter, so a thread does it that is joined at exit.
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
            client.chat.completions  # noqa: B018 (the access imports it)

    def brief(self, prompt: str, most_tokens: int, seconds: float) -> Reply:
        """Return a short answer in a short time. A failed call becomes an error."""
        limit = min(most_tokens, self._settings.max_tokens)
        return self._ask(prompt, limit, min(seconds, self._seconds))

    def most(self, prompt: str) -> Usage:
        """Return the highest cost of a call: a token has at least a byte, and the chat format adds some."""
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
                # A call that timed out may still be answered, and billed.
                usage = self._at_most(prompt, most_tokens) if may_be_paid(error) else Usage()
                return Reply(None, None, self._describe(error), usage, retry_after(error))

    @property
    def _seconds(self) -> float:
        return min(self._settings.timeout_s, self._settings.total_timeout_s)

    def _call_in_time(self, prompt: str, most_tokens: int, seconds: float) -> Any:
        """Limit the time of the whole call; litellm limits only the wait for each part of the answer."""
        endpoint = BoundedEndpoint(self._server, most_tokens)
        answer = in_thread(lambda: self._call(prompt, most_tokens, seconds, endpoint))
        try:
            return answer.result(seconds + _GRACE_S)
        except TimeoutError:
            endpoint.cut()
            raise TimeoutError(f"no complete answer within {seconds:.3g} s") from None
        except Exception:
            if endpoint.fault is None:
                raise
            raise endpoint.fault from None

    def _call(
        self, prompt: str, most_tokens: int, seconds: float, endpoint: BoundedEndpoint
    ) -> Any:
        with self._client(endpoint, seconds) as client:
            try:
                return self._completion(prompt, most_tokens, seconds, client)
            except Exception as error:
                if client is None or (how := misuse(error)) is None:
                    raise
                self._unbounded = True
                logger.warning(
                    "the installed litellm does not take the client that bounds answers (%s): calls are "
                    "made without it, and an answer may be of any size",
                    redact(how, self._key)[:_LONGEST_ERROR],
                )
        return self._completion(prompt, most_tokens, seconds, None)

    def _completion(self, prompt: str, most_tokens: int, seconds: float, client: Any) -> Any:
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
            client=client,
        )

    @contextmanager
    def _client(self, endpoint: BoundedEndpoint, seconds: float) -> Iterator[Any]:
        """Make what litellm takes for its own handler, and for OpenAI's client where it calls through that.

        It lives for one call: one that litellm kept would be the user's, too.
        """
        if self._unbounded:
            yield None
            return
        import httpx
        from litellm.llms.custom_httpx.http_handler import HTTPHandler

        made = HTTPHandler(timeout=seconds)  # with the user's proxies and certificates
        endpoint.inner = made.client
        http = httpx.Client(
            transport=endpoint, headers=made.client.headers, timeout=seconds, follow_redirects=True
        )
        openai = cache(lambda: self._openai(endpoint, http))

        class EitherClient(HTTPHandler):  # type: ignore[misc]
            def post(self, *arguments: Any, **options: Any) -> Any:
                """Post as OpenAI's client where a class for the answer is named, else as the handler."""
                if "cast_to" in options:
                    return openai().post(*arguments, **options)
                return super().post(*arguments, **options)

            def __getattr__(self, name: str) -> Any:
                if name.startswith("__"):
                    raise AttributeError(name)
                return getattr(openai(), name)

        try:
            yield EitherClient(client=http)
        finally:
            made.close()

    def _openai(self, endpoint: BoundedEndpoint, http: Any) -> Any:
        """Make OpenAI's client as litellm does."""
        endpoint.inner = self._litellm.client_session or endpoint.inner
        _, _, key, base = self._litellm.get_llm_provider(
            self._model, api_base=self._settings.api_base, api_key=self._key or None
        )
        named = os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")
        return import_module("openai").OpenAI(
            api_key=key or self._key or self._litellm.api_key or self._litellm.openai_key,
            base_url=base or self._litellm.api_base or named,
            organization=self._litellm.organization or os.environ.get("OPENAI_ORGANIZATION"),
            http_client=http,
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
            # By the requested name: a server may report a different one.
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
        if isinstance(error, EndpointFaultError):
            return redact(str(error), self._key)
        if _NO_TEXT.search(text):
            return redact(
                f"{self._server} answered a message whose content is no text, which litellm cannot read; "
                "have the server answer with plain text, not with parts",
                self._key,
            )
        if NO_KEY.search(text):
            first = text.partition("\n")[0].rpartition(" - ")[2]
            return redact(f"AuthenticationError: {first}", self._key)[:_LONGEST_ERROR]
        html = is_html(text)
        if is_unreadable(error) or (html and not is_transient(error)):
            return self._no_api("HTML, not JSON" if html else "something else than a completion")
        # Cut after redacting: half a key would not be recognised.
        return redact(text, self._key)[:_LONGEST_ERROR]

    def _no_api(self, answer: str) -> str:
        return redact(
            f"{self._server} answered {answer}: is reflection.api_base the address of an "
            "OpenAI-compatible server, usually ending in /v1?",
            self._key,
        )


def _in_place_of_text(message: Any) -> str | None:
    """Return as a finish reason what a message contains instead of text."""
    own = getattr(message, "provider_specific_fields", None) or {}
    if getattr(message, "tool_calls", None):
        return "tool_calls"
    if getattr(message, "refusal", None) or own.get("refusal"):
        return "refusal"
    return "reasoning" if getattr(message, "reasoning_content", None) else None


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return the closest known name, or the name itself if none is close."""
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
