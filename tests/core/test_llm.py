"""The real litellm against a local server (a stand-in for a remote LLM)."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from standins.openai_server import Server, openai_server

from prompt_coevo import llm
from prompt_coevo.llm import LiteLLMModel
from prompt_coevo.sections import ReflectionSettings


def model(server: Server, **changes: Any) -> LiteLLMModel:
    values = {"api_base": server.base, "api_key": "sk-very-secret", "total_timeout_s": 20.0}
    return LiteLLMModel("openai/test", ReflectionSettings(**{**values, **changes}))


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm, "_FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(llm, "_LONGEST_WAIT_S", 0.05)


def test_replies_come_in_the_order_of_the_prompts() -> None:
    with openai_server(lambda body: "echo " + body["messages"][0]["content"]) as server:
        replies = model(server, temperature=0.3, max_tokens=77).complete(["a", "b", "c"])
    assert [reply.text for reply in replies] == ["echo a", "echo b", "echo c"]
    assert {reply.finish_reason for reply in replies} == {"stop"}
    assert replies[0].usage.prompt_tokens == 11
    assert replies[0].usage.completion_tokens == 7
    assert {body["temperature"] for body in server.requests} == {0.3}
    assert {body["max_tokens"] for body in server.requests} == {77}
    assert set(server.keys) == {"Bearer sk-very-secret"}


def test_a_rate_limit_and_a_server_error_are_tried_again() -> None:
    with openai_server(429, 503, "fine") as server:
        (reply,) = model(server).complete(["a"])
    assert reply.text == "fine"
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 404])
def test_other_errors_are_not_tried_again(status: int) -> None:
    with openai_server(status) as server:
        (reply,) = model(server).complete(["a"])
    assert reply.text is None
    assert reply.error is not None
    assert len(server.requests) == 1


def test_endless_rate_limits_end_at_the_total_time_limit() -> None:
    with openai_server(429) as server:
        (reply,) = model(server, total_timeout_s=0.3).complete(["a"])
    assert reply.error is not None
    assert "RateLimitError" in reply.error
    assert len(server.requests) > 1


def test_no_server_at_all() -> None:
    with openai_server("x") as server:
        pass
    (reply,) = model(server, total_timeout_s=0.3).complete(["a"])
    assert reply.text is None
    assert reply.error


@pytest.mark.parametrize("content", [None, ""])
def test_a_reply_without_content_is_an_error(content: str | None) -> None:
    with openai_server({"content": content}) as server:
        (reply,) = model(server).complete(["a"])
    assert reply.error == "the reply has no content"


def test_the_finish_reason_is_kept() -> None:
    with openai_server({"content": "half a", "finish_reason": "length"}) as server:
        (reply,) = model(server).complete(["a"])
    assert reply.finish_reason == "length"


def test_the_key_is_in_no_error() -> None:
    def leak(body: dict[str, Any]) -> int:
        return 401

    with openai_server(leak) as server:
        (reply,) = model(server).complete(["a"])
    assert "very-secret" not in repr(reply)


def test_importing_the_module_does_not_import_litellm() -> None:
    code = "import sys, prompt_coevo.llm; sys.exit('litellm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_litellm_the_error_names_the_command() -> None:
    code = (
        "import sys; sys.modules['litellm'] = None\n"
        "from prompt_coevo import Coevolution, Settings\n"
        "Coevolution.from_settings(Settings(reflection={'model': 'openai/x'}))"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PROMPT_COEVO_")}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert run.stderr.strip().splitlines()[-1] == (
        "prompt_coevo.extras.MissingExtraError: a reflection model needs the package 'litellm', which is "
        "not installed; run: pip install 'prompt-coevo[llm]'"
    )
