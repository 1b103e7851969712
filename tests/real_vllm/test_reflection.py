"""Check `vllm serve` as the reflection model, called through the real litellm."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.real_vllm import MODEL, VllmServer
from helpers.waits import waits_take_no_time
from prompt_coevo.reflection.ledger import Ledger
from prompt_coevo.reflection.litellm_model import LiteLLMModel
from prompt_coevo.reflection.paid_replies import PaidReplies
from prompt_coevo.settings.reflection import ReflectionSettings


def model(server: VllmServer, provider: str, **changes: Any) -> PaidReplies:
    """Build the model as a run does, with retries and a ledger."""
    name = f"{provider}/{MODEL}"
    base = {"api_base": f"{server.url}/v1", "api_key": "none", "max_tokens": 8}
    settings = ReflectionSettings(**{**base, **changes})
    return PaidReplies(
        LiteLLMModel(name, settings),
        {"model": name},
        Ledger(None),
        total_timeout_s=settings.total_timeout_s,
        at_once=settings.calls_at_once,
    )


@pytest.mark.parametrize("provider", ["hosted_vllm", "openai"])
def test_it_answers_and_says_what_was_used(
    server: VllmServer, provider: str, tokenizer: Any
) -> None:
    prompts = ["now", "use abc then def on x", "note please"] * 4
    replies = model(server, provider).complete(prompts)
    assert [reply.error for reply in replies] == [None] * len(prompts)
    for prompt, reply in zip(prompts, replies, strict=True):
        assert reply.text
        assert reply.finish_reason in ("stop", "length")
        chat = [{"role": "user", "content": prompt}]
        asked = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True)
        assert reply.usage.prompt_tokens == len(asked["input_ids"])
        assert 0 < reply.usage.completion_tokens <= 8


def test_at_temperature_0_it_answers_the_same(server: VllmServer) -> None:
    replies = model(server, "hosted_vllm", temperature=0.0).complete(["note please"] * 3)
    assert len({reply.text for reply in replies}) == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_tokens": 100_000}, "max_tokens=100000 cannot be"),
        ({"model": "hosted_vllm/nobody"}, "does not exist"),
    ],
)
def test_what_it_refuses_is_an_error_and_not_asked_again(
    server: VllmServer,
    changes: dict[str, Any],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = waits_take_no_time(monkeypatch.setattr)
    name = changes.pop("model", f"hosted_vllm/{MODEL}")
    settings = ReflectionSettings(api_base=f"{server.url}/v1", api_key="none", **changes)
    (answer,) = LiteLLMModel(name, settings).complete(["now"])
    assert answer.text is None
    assert said in str(answer.error)
    assert answer.retry_after is None
    assert waits == []
