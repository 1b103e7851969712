"""Check the real litellm against a local server (a stand-in for a remote LLM)."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.global_random import twice_seeded_alike
from helpers.waits import waits_take_no_time
from prompt_coevo.errors import SettingsError
from prompt_coevo.extras import MissingExtraError
from prompt_coevo.jitter import JITTER
from prompt_coevo.redact import looks_like_a_key, redact
from prompt_coevo.reflection import litellm_model as llm
from prompt_coevo.reflection import patience
from prompt_coevo.reflection.ledger import Ledger
from prompt_coevo.reflection.litellm_model import LiteLLMModel
from prompt_coevo.reflection.models import build_language_model
from prompt_coevo.reflection.paid_replies import PaidReplies
from prompt_coevo.reflection.spending import Spending
from prompt_coevo.settings.reflection import ReflectionSettings
from standins.openai_server import Dropped, Raw, Server, Slow, Trickle, openai_server

KEY = "sk-very-secret"
CALL = {"id": "c", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}


def model(server: Server, name: str = "openai/test", **changes: Any) -> PaidReplies:
    """Build the model as a run does, with retries and a ledger."""
    settings = ReflectionSettings(**{"api_base": server.base, "api_key": KEY, **changes})
    return PaidReplies(
        LiteLLMModel(name, settings),
        {"model": name},
        Ledger(None),
        total_timeout_s=settings.total_timeout_s,
        at_once=settings.calls_at_once,
    )


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    return waits_take_no_time(monkeypatch.setattr)


def test_replies_come_in_the_order_of_the_prompts() -> None:
    with openai_server(lambda body: "echo " + body["messages"][0]["content"]) as server:
        replies = model(server, temperature=0.3, max_tokens=77).complete(["a", "b", "c"])
    assert [reply.text for reply in replies] == ["echo a", "echo b", "echo c"]
    assert {reply.finish_reason for reply in replies} == {"stop"}
    assert replies[0].usage.prompt_tokens == 11
    assert replies[0].usage.completion_tokens == 7
    assert {body["temperature"] for body in server.requests} == {0.3}
    assert {body["max_tokens"] for body in server.requests} == {77}
    assert set(server.keys) == {f"Bearer {KEY}"}


def test_a_litellm_that_takes_another_client_is_called_without_ours(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As litellm 1.108.14 did, when the client had only its handler's `post`: every call failed."""
    from litellm.llms.custom_httpx.http_handler import HTTPHandler

    monkeypatch.setattr(LiteLLMModel, "_openai", lambda *arguments: HTTPHandler())
    with openai_server(lambda body: "fine") as server:
        asked = model(server, concurrency=1)
        replies = asked.complete(["a", "b"])
    assert [reply.text for reply in replies] == ["fine", "fine"]
    (warning,) = caplog.messages
    assert "does not take the client that bounds answers" in warning


def test_as_many_calls_at_once_as_the_limit_and_no_more() -> None:
    pairs, lock, room = threading.Barrier(2), threading.Lock(), threading.Event()
    running: list[int] = []
    at_once: list[int] = []

    def answer(body: Any) -> str:
        with lock:
            running.append(1)
            at_once.append(len(running))
        pairs.wait(300)
        room.wait(0.05)  # for a third thread, which must not come
        with lock:
            running.pop()
        return "fine"

    with openai_server(answer) as server:
        replies = model(server, concurrency=2).complete(["a"] * 6)
    assert {reply.text for reply in replies} == {"fine"}
    assert max(at_once) == 2


@pytest.mark.parametrize("first", [429, 500, 503, Dropped(), Raw("<html>", 502, "text/html")])
def test_what_may_pass_is_tried_again(first: Any) -> None:
    with openai_server(first, first, "fine") as server:
        (reply,) = model(server).complete(["a"])
    assert reply.text == "fine"
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 404, 501])
def test_other_errors_are_not_tried_again(status: int) -> None:
    with openai_server(status) as server:
        (reply,) = model(server).complete(["a"])
    assert reply.text is None
    assert reply.error is not None
    assert len(server.requests) == 1


def test_the_server_may_say_how_long_to_wait(waits: list[float]) -> None:
    busy = Raw('{"error": {"message": "slow down"}}', 429, headers={"Retry-After": "77.5"})
    with openai_server(busy, "fine") as server:
        (reply,) = model(server).complete(["a"])
    assert reply.text == "fine"
    assert waits == [77.5]


def test_a_wait_beyond_the_total_time_limit_is_not_waited_for(waits: list[float]) -> None:
    busy = Raw('{"error": {"message": "slow down"}}', 429, headers={"Retry-After": "301"})
    with openai_server(busy) as server:
        (reply,) = model(server, total_timeout_s=300).complete(["a"])
    assert reply.error is not None
    assert waits == []


def test_a_date_to_wait_for_is_passed_over(waits: list[float]) -> None:
    asked = "Wed, 21 Oct 2026 07:28:00 GMT"
    busy = Raw('{"error": {"message": "slow down"}}', 429, headers={"Retry-After": asked})
    with openai_server(busy, "fine") as server:
        (reply,) = model(server).complete(["a"])
    assert reply.text == "fine"
    assert 1 <= waits[0] <= 2


def test_endless_rate_limits_end_at_the_total_time_limit(waits: list[float]) -> None:
    with openai_server(429) as server:
        (reply,) = model(server, total_timeout_s=300).complete(["a"])
    assert reply.error is not None
    assert "RateLimitError" in reply.error
    assert len(server.requests) == len(waits) + 1 > 5
    assert 300 - patience._LONGEST_WAIT_S - 1 <= sum(waits) < 300


def test_ranks_that_are_seeded_alike_wait_differently(waits: list[float]) -> None:
    def waited() -> list[float]:
        waits.clear()
        with openai_server(429) as server:
            model(server, total_timeout_s=300).complete(["a"])
        return list(waits)

    waited()  # rich, which httpx imports, draws once from the global generator
    one, other = twice_seeded_alike(waited)
    assert one != other
    assert isinstance(JITTER, random.SystemRandom), "or forked ranks would draw alike"


@pytest.mark.parametrize("answer", [Slow(3600), Trickle()])
@pytest.mark.parametrize("timeout_s", [0.2, 30.0])
def test_a_call_ends_within_the_total_time_limit(
    answer: Any, timeout_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server never finishes its answer; the call ends, and nothing waits beyond the limit."""
    limits: list[float | None] = []
    in_thread = llm.in_thread

    def watched(function: Any) -> Any:
        future = in_thread(function)
        result = future.result

        def noted(timeout: float | None = None) -> Any:
            limits.append(timeout)
            return result(timeout)

        future.result = noted  # type: ignore[method-assign]
        return future

    monkeypatch.setattr(llm, "in_thread", watched)
    with openai_server(answer) as server:
        (reply,) = model(server, timeout_s=timeout_s, total_timeout_s=0.6).complete(["a"])
    assert reply.error is not None
    assert "Timeout" in reply.error
    assert limits == [min(timeout_s, 0.6) + llm._GRACE_S]


def test_no_server_at_all() -> None:
    with openai_server("x") as server:
        pass
    (reply,) = model(server).complete(["a"])
    assert reply.text is None
    assert reply.error
    assert "Connection error" in reply.error


@pytest.mark.parametrize("content", [None, ""])
def test_a_reply_without_content_is_empty(content: str | None) -> None:
    with openai_server({"content": content, "finish_reason": "length"}) as server:
        (reply,) = model(server).complete(["a"])
    assert (reply.text, reply.finish_reason, reply.error) == ("", "length", None)
    assert reply.usage.completion_tokens == 7


@pytest.mark.parametrize(
    "content", [[{"type": "text", "text": "fine"}], [{"type": "image_url"}], {"a": 1}, 7]
)
def test_content_that_is_no_text_is_not_blamed_on_the_address(content: Any) -> None:
    choice = {"index": 0, "finish_reason": "stop", "message": {"content": content}}
    with openai_server(Raw(json.dumps({**COMPLETION, "choices": [choice]}))) as server:
        (reply,) = model(server).complete(["a"])
    assert reply.text is None
    assert reply.error == (
        f"{server.base} answered a message whose content is no text, which litellm cannot read; "
        "have the server answer with plain text, not with parts"
    )
    assert len(server.requests) == 1


HTML = "<!DOCTYPE html><html><body>Welcome</body></html>"
COMPLETION = {"id": "1", "object": "chat.completion", "created": 1, "model": "test"}


@pytest.mark.parametrize("name", ["openai/test", "hosted_vllm/test", "lm_studio/test"])
@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (Raw(HTML, content_type="text/html"), "HTML, not JSON"),
        (Raw("hello", content_type="text/plain"), "something else than a completion"),
        (Raw(""), "something else than a completion"),
        (Raw('{"id":'), "something else than a completion"),
        (Raw("{}"), None),
        (Raw("[]"), None),
        (Raw(json.dumps({**COMPLETION, "choices": []})), "without choices"),
        (Raw(json.dumps({**COMPLETION, "choices": None})), None),
        (Raw(json.dumps({**COMPLETION, "choices": [{"index": 0}]})), None),
    ],
)
def test_an_address_without_an_api_is_named_once(name: str, answer: Raw, what: str | None) -> None:
    with openai_server(answer) as server:
        (reply,) = model(server, name).complete(["a"])
    assert reply.error is not None
    assert reply.error.startswith(f"{server.base} answered {what or ''}")
    assert reply.error.endswith(
        ": is reflection.api_base the address of an OpenAI-compatible server, usually ending in /v1?"
    )
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [404, 405, 501])
def test_an_error_page_of_a_web_server_is_no_api_either(status: int) -> None:
    with openai_server(Raw(HTML, status, "text/html")) as server:
        (reply,) = model(server).complete(["a"])
    assert reply.error is not None
    assert f"{server.base} answered HTML, not JSON" in reply.error


def test_the_finish_reason_is_kept() -> None:
    with openai_server({"content": "half a", "finish_reason": "length"}) as server:
        (reply,) = model(server).complete(["a"])
    assert reply.finish_reason == "length"


def wrong_key(*keys: str, status: int = 401) -> Raw:
    """Answer as real servers do, with the key in the message."""
    return Raw(json.dumps({"error": {"message": f"Incorrect API key provided: {keys}"}}), status)


@pytest.mark.parametrize("status", [400, 401, 403])
def test_the_key_is_in_no_error(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMEBODYS_API_KEY", "in-the-environment")
    monkeypatch.setenv("hf_token", "hf-also-secret ")
    answer = wrong_key(KEY, "in-the-environment", "hf-also-secret", status=status)
    with openai_server(answer) as server:
        asked = model(server)
        (reply,) = asked.complete(["a"])
    assert reply.error is not None
    assert reply.error.count("[api key]") == 3
    for secret in ("very-secret", "in-the-environment", "also-secret"):
        assert secret not in repr((reply, asked, vars(asked)))


def test_the_providers_own_variable_is_used_and_kept_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-provider")
    with openai_server(wrong_key("sk-of-the-provider")) as server:
        (reply,) = model(server, api_key=None).complete(["a"])
    assert server.keys == ["Bearer sk-of-the-provider"]
    assert reply.error is not None
    assert "of-the-provider" not in reply.error


# Keys are put together here, so that no file has one.
REST = "Ab3dE5gH7jK9mN1pQ3sT5v"


@pytest.mark.parametrize(
    ("typed", "is_key"),
    [
        (f"sk-proj-{REST}", True),
        (f"sk-ant-api03-{REST}", True),
        (f"gsk_{REST}", True),
        (f"hf_{REST}{REST}", True),
        (f"openai/sk-proj-{REST}", True),
        ("openai/gpt-5", False),
        ("sk-learn-like-names-are-not-keys", False),
        ("hf_a_name_with_underscores_and_more_letters", False),
        ("openai/ask-me-anything-2026-preview-1", False),
    ],
)
def test_keys_that_were_typed_are_known_by_their_shape(typed: str, is_key: bool) -> None:
    assert looks_like_a_key(typed) is is_key
    told = f"not '{typed}' or so"
    key = typed.rpartition("/")[2]
    assert redact(told) == (told.replace(key, "[api key]") if is_key else told)


def test_redaction_spares_dummies_and_takes_passwords_out_of_addresses() -> None:
    assert redact("x is wrong", "x", "") == "x is wrong"
    assert redact("http://me:pw@host/v1 failed") == "http://host/v1 failed"
    assert redact("abcd abcdefgh", "abcd", "abcdefgh") == "[api key] [api key]"


@pytest.mark.parametrize(
    ("address", "written"),
    [
        ("HTTPS://h/v1?key=SECRET", "HTTPS://h/v1?[query]"),
        ("s3://h/v1?key=SECRET", "s3://h/v1?[query]"),
        ("http://user:p@SECRET@host/", "http://host/"),
        ("http://h/cb#access_token=SECRET", "http://h/cb#[fragment]"),
        ("http://h/cb?a=1#access_token=SECRET", "http://h/cb?[query]"),
        ("<http://h/cb#SECRET> 'http://h/a?b'", "<http://h/cb#[fragment]> 'http://h/a?[query]'"),
        ("is it http://h/v1? yes, # 1", "is it http://h/v1? yes, # 1"),
    ],
)
def test_addresses_are_written_without_what_may_hold_a_key(address: str, written: str) -> None:
    assert redact(address) == written


@pytest.mark.parametrize(
    ("value", "is_key"),
    [
        ("/bPxRfiCYEXAMPLEKEYwJalrXUtnFEMIK7MDENG", True),
        ("/Wq8base64+secret/with/slashes", True),
        ("//Wq8base64+secret/with/slashes", True),
        (".n0-path-at-all", True),
        ("~n0-path-at-all", True),
        ("~/keys/of-mine.json", False),
        ("../keys/of-mine.json", False),
        (f"{tempfile.gettempdir()}/keys-of-mine.json", False),
    ],
)
def test_a_key_may_begin_with_a_slash_and_a_path_is_no_key(
    value: str, is_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET", value)
    assert redact(f"403 for {value}") == ("403 for [api key]" if is_key else f"403 for {value}")


@pytest.mark.parametrize("version", ["1.82.7", "1.82.8"])
def test_versions_reported_as_malware_are_never_imported(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llm, "version", lambda name: version)
    with pytest.raises(MissingExtraError, match=f"litellm {version} is installed, .* malware"):
        LiteLLMModel("openai/test", ReflectionSettings())


@pytest.mark.parametrize(
    "reflection",
    [
        {"model": "openai/test", "max_usd": 5},
        {"model": "ollama/llama3", "max_usd": 5},
        {"model": "self", "max_usd": 5},
        {"function": len, "max_usd": 5},
    ],
)
def test_a_budget_in_dollars_needs_a_price(reflection: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"reflection.max_usd = 5 cannot be kept.*no price for"):
        build_language_model(ReflectionSettings(**reflection), "some/checkpoint")


def test_a_model_with_a_price_is_counted_by_the_name_that_was_asked_for() -> None:
    with openai_server("fine") as server:
        asked = model(server, "openai/gpt-4o-mini", max_usd=5)
        assert LiteLLMModel("openai/gpt-4o-mini", ReflectionSettings()).has_price
        server.answers = [lambda body: body.update(model="a name of its own") or "fine"]
        (reply,) = asked.complete(["a"])
    assert reply.usage.usd == pytest.approx((11 * 0.15 + 7 * 0.6) / 1e6)


def test_importing_the_module_does_not_import_litellm() -> None:
    code = "import sys, prompt_coevo.reflection.litellm_model; sys.exit('litellm' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0


def test_without_litellm_the_error_names_the_command() -> None:
    code = (
        "import sys; sys.modules['litellm'] = None\n"
        "from prompt_coevo import Coevolution, Settings\n"
        "Coevolution.from_settings(Settings(reflection={'model': 'openai/x'}))"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PROMPT_COEVO_")}
    run = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert run.stderr.strip().splitlines()[-1] == (
        "prompt_coevo.extras.MissingExtraError: a reflection model needs the package 'litellm', which is "
        "not installed; run: pip install 'prompt-coevo[llm]'"
    )


def test_an_attempt_that_comes_too_late_is_a_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 100.0])  # seconds: the deadline is reckoned at 0
    with openai_server(503, "late") as server:
        late = model(server, total_timeout_s=50)
        monkeypatch.setattr(patience, "time", SimpleNamespace(monotonic=lambda: next(clock, 100.0)))
        (reply,) = late.complete(["a"])
    assert reply.error is not None
    assert "503" in reply.error or "Service" in reply.error
    assert reply.retry_after is None
    assert len(server.requests) == 1
    assert late.totals["calls"] == 1


def test_every_attempt_is_a_call_and_one_that_timed_out_counts_with_the_most_it_can_cost() -> None:
    with openai_server(429, Slow(3600), "fine") as server:
        paid = model(server, name="openai/gpt-4o", timeout_s=0.3, max_tokens=50)
        (reply,) = paid.complete(["a"])
    assert reply.text == "fine"
    totals = paid.totals
    assert (totals["calls"], totals["errors"]) == (3, 2)
    assert totals["completion_tokens"] == 50 + 7
    assert totals["usd"] > 0


def test_a_budget_in_tokens_is_never_exceeded_by_calls_at_once() -> None:
    """Twelve calls use 18 tokens each, and could each use 30 plus the prompt's."""
    with openai_server("fine") as server:
        paid = model(server, max_tokens=30, concurrency=6)
        paid._spending = Spending({"max_total_tokens": 240})
        replies = paid.complete([str(n) for n in range(12)])
    assert paid.totals["prompt_tokens"] + paid.totals["completion_tokens"] <= 240
    answered = [reply.text is not None for reply in replies]
    assert 5 < sum(answered) < 12
    refused = next(reply.error for reply in replies if reply.error)
    assert "is left of the budget reflection.max_total_tokens = 240" in refused


@pytest.mark.parametrize(
    ("message", "finish", "held"),
    [
        ({"content": None, "tool_calls": [CALL]}, "stop", "tool_calls"),
        ({"content": "", "tool_calls": [CALL]}, "tool_calls", "tool_calls"),
        ({"content": None, "refusal": "I can't help with that."}, "stop", "refusal"),
        ({"content": "", "reasoning_content": "what could help"}, "stop", "reasoning"),
        ({"content": "", "reasoning_content": "what could"}, "length", "length"),
        ({"content": ""}, "stop", "stop"),
        ({"content": "text", "reasoning_content": "what could help"}, "stop", "stop"),
    ],
)
def test_a_reply_without_text_says_what_it_holds(
    message: dict[str, Any], finish: str, held: str
) -> None:
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "test",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
    }
    with openai_server(Raw(json.dumps(body))) as server:
        (reply,) = model(server).complete(["a"])
    assert (reply.text, reply.finish_reason, reply.error) == (message["content"] or "", held, None)
