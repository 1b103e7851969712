"""Any model that litellm knows. The only file that imports litellm."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from prompt_coevo.extras import require
from prompt_coevo.proposals import Reply, Usage
from prompt_coevo.sections import ReflectionSettings

_DEFAULT_CONCURRENCY = 8
_TRANSIENT_STATUS = {408, 409, 429}
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 60.0


class LiteLLMModel:
    """A litellm model with retries: exponential backoff and jitter, and a limit on the total time.

    Rate limits, time-outs, connection errors and server errors are tried again; everything else (a
    wrong key, a bad request) is not. Raises MissingExtraError without litellm or tenacity.
    """

    def __init__(self, model: str, settings: ReflectionSettings) -> None:
        self._litellm = _import_litellm()
        self._model = model
        self._settings = settings
        self._key = settings.api_key.get_secret_value() if settings.api_key else None

    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        """One reply per prompt, in order; what cannot be answered becomes an error."""
        with ThreadPoolExecutor(self._settings.concurrency or _DEFAULT_CONCURRENCY) as pool:
            return list(pool.map(self._ask, prompts))

    def _ask(self, prompt: str) -> Reply:
        try:
            response = self._with_retries(lambda: self._call(prompt))
            return self._read(response)
        except Exception as error:
            return Reply(None, error=self._describe(error))

    def _call(self, prompt: str) -> Any:
        return self._litellm.completion(
            model=self._model,
            messages=[{"role": "user", "content": prompt}],
            temperature=self._settings.temperature,
            max_tokens=self._settings.max_tokens,
            timeout=self._settings.timeout_s,
            api_base=self._settings.api_base,
            api_key=self._key,
            num_retries=0,
            max_retries=0,
        )

    def _with_retries(self, call: Callable[[], Any]) -> Any:
        import tenacity

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_is_transient),
            wait=tenacity.wait_exponential(multiplier=_FIRST_WAIT_S, max=_LONGEST_WAIT_S)
            + tenacity.wait_random(0, _FIRST_WAIT_S),
            stop=tenacity.stop_before_delay(self._settings.total_timeout_s),
            reraise=True,
        )
        return retrying(call)

    def _read(self, response: Any) -> Reply:
        choice = response.choices[0]
        return Reply(
            text=choice.message.content,
            finish_reason=choice.finish_reason,
            error=None if choice.message.content else "the reply has no content",
            usage=self._usage(response),
        )

    def _usage(self, response: Any) -> Usage:
        usage = getattr(response, "usage", None)
        try:
            usd = float(self._litellm.completion_cost(completion_response=response))
        except Exception:  # a model without a known price
            usd = 0.0
        return Usage(
            prompt_tokens=getattr(usage, "prompt_tokens", None) or 0,
            completion_tokens=getattr(usage, "completion_tokens", None) or 0,
            usd=usd,
        )

    def _describe(self, error: Exception) -> str:
        text = f"{type(error).__name__}: {error}"
        return text.replace(self._key, "[api key]") if self._key else text


def _import_litellm() -> Any:
    # Without this, litellm fetches its price list over the network when it is imported.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    require("litellm", "tenacity", extra="llm", purpose="a reflection model")
    import litellm

    litellm.suppress_debug_info = True
    return litellm


def _is_transient(error: BaseException) -> bool:
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in _TRANSIENT_STATUS or status >= 500
    return isinstance(error, (TimeoutError, ConnectionError))
