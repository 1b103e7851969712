"""Build the language model that the reflection settings select."""

from __future__ import annotations

from prompt_coevo import registry
from prompt_coevo.errors import SettingsError
from prompt_coevo.proposals import LanguageModel
from prompt_coevo.reflection.function_model import FunctionModel
from prompt_coevo.reflection.litellm_model import LiteLLMModel
from prompt_coevo.reflection.local_model import LocalModel
from prompt_coevo.settings.reflection import ReflectionSettings


def build_language_model(reflection: ReflectionSettings, initial_policy: str) -> LanguageModel:
    """Build the model of `reflection.backend`: a function, the initial policy, litellm, or a third party's.

    Raise SettingsError if none is set, or if a dollar budget is set for a model without a price.
    """
    factory = registry.load("models", _backend(reflection), "reflection.backend")
    model: LanguageModel = factory(reflection, initial_policy)
    return model


def function_model(reflection: ReflectionSettings, initial_policy: str) -> LanguageModel:
    """Build the backend `function`."""
    assert reflection.function is not None  # checked by the settings
    _refuse_dollars(reflection, "a reflection.function")
    return FunctionModel(reflection.function, reflection.calls_at_once)


def self_model(reflection: ReflectionSettings, initial_policy: str) -> LanguageModel:
    """Build the backend `self`."""
    _refuse_dollars(reflection, 'reflection.model = "self"')
    return LocalModel(initial_policy, reflection)


def litellm_model(reflection: ReflectionSettings, initial_policy: str) -> LanguageModel:
    """Build the backend `litellm`."""
    assert reflection.model is not None  # checked by the settings
    model = LiteLLMModel(reflection.model, reflection)
    if not model.has_price:
        _refuse_dollars(reflection, f"reflection.model = {reflection.model!r}")
    return model


def _backend(reflection: ReflectionSettings) -> str:
    if reflection.backend_in_use is not None:
        return reflection.backend_in_use
    raise SettingsError(
        "no reflection model is set, so nobody can write candidates; set reflection.model to a "
        'litellm model name or "self", or reflection.function to a function from prompt to reply'
    )


def _refuse_dollars(reflection: ReflectionSettings, model: str) -> None:
    if reflection.max_usd is not None:
        raise SettingsError(
            f"reflection.max_usd = {reflection.max_usd:g} cannot be kept, because litellm's price list has "
            f"no price for {model}; set reflection.max_calls instead"
        )
