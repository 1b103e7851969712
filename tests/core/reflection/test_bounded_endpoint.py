"""Check the real litellm against servers that send too much, too slowly or without end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from prompt_coevo.proposals import Reply
from prompt_coevo.reflection.litellm_model import LiteLLMModel
from prompt_coevo.settings.reflection import ReflectionSettings
from standins.bad_endpoint import BadEndpoint, bad_endpoint, completion

TOKENS = 200
LIMIT = 1_000_000 + 64 * TOKENS
KEY = "sk-very-secret"
LONG_S = 300.0
# litellm calls OpenAI through its client, others through litellm's own handler.
NAMES = pytest.mark.parametrize("name", ["openai/test", "anthropic/test"])


@pytest.fixture(scope="module")
def bad() -> Iterator[BadEndpoint]:
    with bad_endpoint() as server:
        yield server


def model(name: str, base: str, timeout_s: float = LONG_S) -> LiteLLMModel:
    settings = ReflectionSettings(
        api_base=base, api_key=KEY, timeout_s=timeout_s, max_tokens=TOKENS, concurrency=8
    )
    made = LiteLLMModel(name, settings)
    made.warm()
    return made


def ask(name: str, base: str, timeout_s: float = LONG_S) -> Reply:
    return model(name, base, timeout_s).complete(["What is 2 + 2?"])[0]


@NAMES
@pytest.mark.parametrize("kind", ["huge", "endless", "stream", "packed", "fat"])
def test_an_answer_is_read_up_to_what_its_tokens_need(
    name: str, kind: str, bad: BadEndpoint
) -> None:
    reply = ask(name, bad.base(kind, 20_000_000))
    assert reply.error is not None
    assert f"answered with more than {LIMIT} bytes" in reply.error
    assert "reflection.max_tokens" in reply.error
    assert reply.retry_after is None
    assert reply.usage.completion_tokens == TOKENS, "it may have been paid for"


@NAMES
def test_an_answer_of_just_the_limit_is_taken(name: str, bad: BadEndpoint) -> None:
    assert ask(name, bad.base("sized", LIMIT)).error is None
    assert "more than" in str(ask(name, bad.base("sized", LIMIT + 1)).error)


@NAMES
def test_an_answer_that_comes_packed_is_read(name: str, bad: BadEndpoint) -> None:
    assert ask(name, bad.base("packed", 10_000)).error is None
    assert "packed its answer with 'br'" in str(ask(name, bad.base("unknown")).error)


@NAMES
def test_a_loop_of_redirects_ends_and_is_not_asked_again(name: str, bad: BadEndpoint) -> None:
    before = bad.asked("loop")
    reply = ask(name, bad.base("loop"))
    assert "redirected the call more than 3 times" in str(reply.error)
    assert reply.retry_after is None
    assert reply.usage.completion_tokens == 0
    assert bad.asked("loop") - before == 4


@NAMES
def test_no_key_follows_a_redirect_to_another_origin(name: str, bad: BadEndpoint) -> None:
    at_home, away = ask(name, bad.base("keys")), ask(name, bad.base("away"))
    assert KEY in str(at_home.text) or "[redacted]" in str(at_home.text).lower()
    assert "Host: localhost" in str(away.text)
    assert KEY not in str(away.text)
    assert "key" not in str(away.text).lower()
    assert "authorization" not in str(away.text).lower()


def test_a_half_answer_is_asked_for_again(bad: BadEndpoint) -> None:
    assert ask("openai/test", bad.base("early")).retry_after == 0


@NAMES
def test_sixty_bad_calls_leave_no_thread_and_no_socket(name: str, bad: BadEndpoint) -> None:
    leaves_nothing(name, bad, 63)


@pytest.mark.long
def test_a_thousand_bad_calls_leave_no_thread_and_no_socket(bad: BadEndpoint) -> None:
    leaves_nothing("openai/test", bad, 1008)


def leaves_nothing(name: str, bad: BadEndpoint, calls: int) -> None:
    kinds = ["huge", "endless", "drip", "head", "silent", "early", "loop", "fat", "packed"]
    ask(name, bad.base("sized"))
    before = held()
    for kind in kinds:
        asked = model(name, bad.base(kind, 20_000_000), timeout_s=0.3)
        assert len(asked.complete(["What?"] * (calls // len(kinds)))) == calls // len(kinds)
    end = time.monotonic() + LONG_S
    while more_than(before) and time.monotonic() < end:
        time.sleep(0.05)
    assert not more_than(before)


def more_than(before: tuple[int, int]) -> bool:
    return any(now > then for now, then in zip(held(), before, strict=True))


def held() -> tuple[int, int]:
    """Count this process's threads and sockets, except for litellm's bounded logging pool."""
    pools = ("litellm-logging", "ThreadPoolExecutor")
    threads = [one for one in threading.enumerate() if not one.name.startswith(pools)]
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:  # the folder's own
            continue
    return len(threads), sum(link.startswith("socket:") for link in links)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux counts the peak")
@pytest.mark.parametrize("kind", ["huge", "endless", "packed"])
def test_bad_answers_cost_little_memory(kind: str, bad: BadEndpoint) -> None:
    code = f"""
from pathlib import Path
from test_bounded_endpoint import TOKENS, model
def memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1000
model("openai/test", {bad.base("sized")!r}).complete(["a", "b"])
Path("/proc/self/clear_refs").write_text("5")
idle = memory("VmRSS")
model("openai/test", {bad.base(kind, 100_000_000)!r}).complete(["a", "b"])
print(memory("VmHWM") - idle)
"""
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    assert float(run.stdout.splitlines()[-1]) < 50


def test_a_users_own_litellm_feels_nothing(
    bad: BadEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    import httpx
    import litellm

    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        text = completion(text="by the user's client")
        return httpx.Response(200, headers={"Content-Type": "application/json"}, content=text)

    session = httpx.Client(transport=httpx.MockTransport(answer))
    monkeypatch.setattr(litellm, "client_session", session)
    kept = dict(litellm.in_memory_llm_clients_cache.cache_dict)
    for name in ("openai/test", "anthropic/test"):
        assert ask(name, bad.base("sized")).error is None
    assert ask("openai/test", bad.base("huge")).text == "by the user's client"
    assert len(asked) == 2, "OpenAI's client is the one that litellm gives this to"
    assert litellm.in_memory_llm_clients_cache.cache_dict == kept
    assert litellm.client_session is session
    assert not session.is_closed
