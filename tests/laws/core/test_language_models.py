"""Check that the models that need no torch keep the laws; litellm uses a local server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from prompt_coevo.reflection.function_model import FunctionModel
from prompt_coevo.reflection.ledger import Ledger
from prompt_coevo.reflection.litellm_model import LiteLLMModel
from prompt_coevo.reflection.paid_replies import PaidReplies
from prompt_coevo.settings.reflection import ReflectionSettings
from prompt_coevo.testing.language_model import LanguageModelLaws
from standins.openai_server import openai_server

Answer = Callable[[str], str]


class TestFunctionModel(LanguageModelLaws):
    @contextmanager
    def model(self, answer: Answer) -> Iterator[Any]:
        yield FunctionModel(answer)


class TestFunctionModelAtOnce(LanguageModelLaws):
    @contextmanager
    def model(self, answer: Answer) -> Iterator[Any]:
        yield FunctionModel(answer, concurrency=4)


class TestPaidReplies(LanguageModelLaws):
    """Check the wrapper around every model of a run."""

    @contextmanager
    def model(self, answer: Answer) -> Iterator[Any]:
        yield PaidReplies(FunctionModel(answer), {"model": "x"}, Ledger(None), at_once=4)


class TestLiteLLM(LanguageModelLaws):
    @contextmanager
    def model(self, answer: Answer) -> Iterator[Any]:
        def served(body: dict[str, Any]) -> Any:
            try:
                return answer(body["messages"][0]["content"])
            except Exception:
                return 400

        with openai_server(served) as server:
            settings = ReflectionSettings(api_base=server.base, api_key="sk-test")
            yield LiteLLMModel("openai/test", settings)
