"""The language model that writes new candidates: the section `reflection`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pydantic import Field, ImportString, SecretStr

from prompt_coevo.redact import looks_like_a_key, redact
from prompt_coevo.registry import unknown
from prompt_coevo.settings.section import Section

_MODEL_NAME: Final = re.compile(r"self|[a-z][a-z0-9_.-]{1,30}/\S+")
_LIKE_A_KEY: Final = re.compile(r"(?=.*\d)[A-Za-z0-9]{20,}")
_LONGEST_OF_THE_POLICY: Final = 512
_OF_A_MODEL = {"temperature", "max_tokens"}
_OF_A_REMOTE_MODEL = {"api_base", "api_key", "timeout_s", "total_timeout_s"}


def is_model_name(text: object) -> bool:
    """Return True if a text given instead of settings is a model's name: PROVIDER/NAME, or self.

    A text that looks like a key is not one, because names are printed.
    """
    if not isinstance(text, str) or not _MODEL_NAME.fullmatch(text):
        return False
    parts = text.split("/")
    return not looks_like_a_key(text) and not any(map(_LIKE_A_KEY.fullmatch, parts))


class ReflectionSettings(Section):
    """The language model that writes new candidates."""

    model: str | None = None
    """`"self"` for the initial policy (P2O's self-reference), or any litellm model name (a teacher)."""
    function: ImportString[Any] | None = None
    """A callable from prompt text to reply text, or its import path, in place of a model."""
    backend: str | None = None
    """The kind of model: `litellm`, `self`, `function`, one that an installed package offers, or
    `module:attribute` of a factory. Default: by `model` and `function`."""
    api_base: str | None = None
    """Base URL of an OpenAI-compatible server, such as a local vLLM."""
    api_key: SecretStr | None = None
    """The provider's key; better set in the provider's own environment variable."""
    temperature: float | None = Field(default=1.0, ge=0.0, le=10.0)
    """Sampling temperature of the reflection model. `null` sends none, for models that accept only their
    own."""
    max_tokens: int = Field(default=4096, ge=1)
    """Longest reply, in tokens; a reply that reaches it is rejected. With `model = "self"` 512 unless
    set."""
    concurrency: int | None = Field(default=None, ge=1)
    """Calls at once. Default: 8 for a litellm model, 1 for a function (it may not be thread-safe)."""
    timeout_s: float = Field(default=120.0, gt=0.0)
    """Seconds that one attempt may take."""
    total_timeout_s: float = Field(default=300.0, gt=0.0)
    """Seconds that one call may take with all its retries."""
    max_example_tokens: int = Field(default=2000, ge=16)
    """Longest excerpt of a question, a response or an answer in a reflection prompt, in tokens."""
    meta_prompts: dict[str, Path] = Field(default={})
    """Files in place of the proposers' own meta-prompts, by the proposer's name."""
    max_calls: int | None = Field(default=None, ge=1)
    """Budget of the run, over all its attempts: calls to the reflection model, including retries and calls
    cut off by a kill. When a budget is spent, evolution stops and training continues."""
    max_total_tokens: int | None = Field(default=None, ge=1)
    """Budget of the run, counted in the same way: tokens of prompts and replies together."""
    max_usd: float | None = Field(default=None, gt=0.0)
    """Budget of the run, counted in the same way: US dollars, by litellm's price list; refused for a model
    without a price."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, redact(value) if name == "api_base" and value else value

    @property
    def calls_at_once(self) -> int:
        """The setting `concurrency`, or its default."""
        # The policy itself must not generate beside another thread's training.
        return self.concurrency or (1 if self.backend_in_use in ("function", "self") else 8)

    @property
    def longest_reply(self) -> int:
        """Return the setting `max_tokens`; 512 for the policy itself unless it was set. A small one that
        rambles would fill 4 096 at each call, and nothing trains meanwhile."""
        short = self.backend_in_use == "self" and "max_tokens" not in self.model_fields_set
        return _LONGEST_OF_THE_POLICY if short else self.max_tokens

    @property
    def backend_in_use(self) -> str | None:
        """The setting `backend`, or what follows from `model` and `function`; None if none is set."""
        if self.backend is not None:
            return self.backend
        if self.function is not None:
            return "function"
        if self.model is not None:
            return "self" if self.model == "self" else "litellm"
        return None

    def problems(self) -> Iterator[str]:
        if self.backend is not None:
            yield from unknown("models", (self.backend,), "reflection.backend")
        yield from unknown("proposers", self.meta_prompts, "reflection.meta_prompts")
        if self.model is not None and looks_like_a_key(self.model):
            yield (
                "reflection.model looks like a key, which is not shown here; name a model, such as "
                "openai/gpt-5, and set the provider's environment variable for the key"
            )
        if self.api_base is not None and not self.api_base.lower().startswith(
            ("http://", "https://")
        ):
            yield "reflection.api_base must begin with http:// or https://"
        if self.model is not None and self.function is not None:
            yield "reflection.model and reflection.function exclude each other: set one"
        if self.function is not None:
            idle = _OF_A_MODEL | _OF_A_REMOTE_MODEL | {"max_total_tokens"}
            yield from self._idle(idle - {"total_timeout_s"}, "a reflection.function")
        if self.backend in ("litellm", "self") and self.model is None:
            yield f'reflection.backend = "{self.backend}" needs reflection.model'
        if self.backend == "function" and self.function is None:
            yield 'reflection.backend = "function" needs reflection.function'
        if self.model == "self":
            idle = {"concurrency"} | _OF_A_REMOTE_MODEL
            yield from self._idle(idle - {"total_timeout_s"}, 'reflection.model = "self"')

    def _idle(self, names: set[str], where: str) -> Iterator[str]:
        for name in sorted(names & self.model_fields_set):
            yield f"reflection.{name} has no effect with {where}; leave it out"
