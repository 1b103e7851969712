from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from prompt_coevo.threads import in_thread, map_in_threads
from standins.openai_server import Slow, openai_server


def test_results_come_in_the_order_of_the_items() -> None:
    done = [threading.Event() for _ in range(6)]

    def late_if_early(number: int) -> int:
        if number < 2:
            assert done[number + 1].wait(300)
        done[number].set()
        return number * number

    assert map_in_threads(late_if_early, range(6), 3) == [0, 1, 4, 9, 16, 25]
    assert map_in_threads(late_if_early, [], 3) == []


def test_as_many_at_once_as_the_limit_and_never_more() -> None:
    running = most = 0
    lock, threes, room = threading.Lock(), threading.Barrier(3), threading.Event()

    def watch(_: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threes.wait(300)
        room.wait(0.01)  # for a fourth thread, which must not come
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
    assert in_thread(lambda: 3).result(300) == 3
    with pytest.raises(ValueError, match="abc"):
        in_thread(lambda: int("abc")).result(300)


def exits_while_it_asks(code: str, asked: Callable[[], bool] = lambda: True) -> None:
    """Run code that asks, reports that the question has arrived, and exits; the answer never comes."""
    command = [sys.executable, "-P", "-c", code]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            while not asked() and process.poll() is None:
                time.sleep(0.01)
            output, _ = process.communicate("it is asked\n", timeout=300)
        finally:
            process.kill()
    assert (output.strip(), process.returncode) == ("done", 0)


def test_an_interpreter_exits_while_a_call_is_under_way() -> None:
    exits_while_it_asks("""
import threading
from prompt_coevo.reflection.function_model import FunctionModel
from prompt_coevo.threads import in_thread
asked = threading.Semaphore(0)
def answer(prompt):
    asked.release()
    threading.Event().wait()
model = FunctionModel(answer, concurrency=2)
in_thread(lambda: model.complete(["a", "b"]))
for _ in range(2):
    asked.acquire()
print("done")
""")


def test_an_interpreter_exits_while_litellm_waits_for_a_server() -> None:
    with openai_server(Slow(3600)) as server:
        exits_while_it_asks(
            f"""
from prompt_coevo.reflection.litellm_model import LiteLLMModel
from prompt_coevo.settings.reflection import ReflectionSettings
from prompt_coevo.threads import in_thread
asked = LiteLLMModel("openai/test", ReflectionSettings(api_base={server.base!r}, api_key="sk-test"))
in_thread(lambda: asked.complete(["a", "b"]))
input()
print("done")
""",
            lambda: len(server.requests) == 2,
        )
