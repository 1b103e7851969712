from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from prompt_coevo.threads import in_thread, map_in_threads
from standins.openai_server import Slow, openai_server


def test_results_come_in_the_order_of_the_items() -> None:
    def slow_if_early(number: int) -> int:
        time.sleep(0.02 * (5 - number))
        return number * number

    assert map_in_threads(slow_if_early, range(6), 3) == [0, 1, 4, 9, 16, 25]
    assert map_in_threads(slow_if_early, [], 3) == []


def test_never_more_at_once_than_the_limit() -> None:
    running = most = 0
    lock = threading.Lock()

    def watch(_: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1

    map_in_threads(watch, range(12), 3)
    assert most == 3


def test_an_exception_reaches_the_caller_and_nothing_more_is_begun() -> None:
    begun = []

    def fail(number: int) -> None:
        begun.append(number)
        raise ZeroDivisionError(number)

    with pytest.raises(ZeroDivisionError):
        map_in_threads(fail, range(100), 2)
    assert len(begun) <= 2


def test_a_future_holds_the_result_or_the_exception() -> None:
    assert in_thread(lambda: 3).result(5) == 3
    with pytest.raises(ValueError, match="abc"):
        in_thread(lambda: int("abc")).result(5)


def seconds_to_exit(code: str) -> float:
    start = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-P", "-c", code], check=False, capture_output=True, text=True
    )
    assert run.stdout.strip() == "done", run.stderr
    return time.monotonic() - start


def test_an_interpreter_exits_while_a_call_is_under_way() -> None:
    code = """
import time
from prompt_coevo.reflection.function_model import FunctionModel
from prompt_coevo.threads import in_thread
asked = FunctionModel(lambda prompt: time.sleep(60), concurrency=2)
in_thread(lambda: asked.complete(["a", "b"]))
time.sleep(0.2)
print("done")
"""
    assert seconds_to_exit(code) < 10


def test_an_interpreter_exits_while_litellm_waits_for_a_server() -> None:
    with openai_server(Slow(60)) as server:
        code = f"""
import time
from prompt_coevo.reflection.litellm_model import LiteLLMModel
from prompt_coevo.settings.reflection import ReflectionSettings
from prompt_coevo.threads import in_thread
asked = LiteLLMModel("openai/test", ReflectionSettings(api_base={server.base!r}, api_key="sk-test"))
in_thread(lambda: asked.complete(["a", "b"]))
time.sleep(2)
print("done")
"""
        assert seconds_to_exit(code) < 30
        assert len(server.requests) == 2
