"""The language model that the reflection settings ask for."""

from __future__ import annotations

from prompt_coevo.errors import SettingsError
from prompt_coevo.function_lm import FunctionModel
from prompt_coevo.llm import LiteLLMModel
from prompt_coevo.local_lm import LocalModel
from prompt_coevo.proposals import LanguageModel
from prompt_coevo.sections import ReflectionSettings


def build_language_model(reflection: ReflectionSettings, initial_policy: str) -> LanguageModel:
    """A function, the initial policy, or a litellm model. Raises SettingsError if none is set."""
    if reflection.function is not None:
        return FunctionModel(reflection.function, reflection.concurrency or 1)
    if reflection.model == "self":
        return LocalModel(initial_policy, reflection)
    if reflection.model is not None:
        return LiteLLMModel(reflection.model, reflection)
    raise SettingsError(
        "no reflection model is set, so nobody can write templates; set reflection.model to a "
        'litellm model name or "self", or reflection.function to a function from prompt to reply'
    )
