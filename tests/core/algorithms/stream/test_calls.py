"""Check when the reflection model is called, which calls count, and which replies are lost."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from helpers.families import Families, engine_with, epoch, knowing, run
from prompt_coevo import Coevolution, Settings
from prompt_coevo.algorithms.stream.outage import Outage
from prompt_coevo.engine.state import plugin_states, seal
from prompt_coevo.proposals import Reply, Usage
from prompt_coevo.reflection import models


class Endpoint:
    """A reflection model that can be up or down; calls during an outage may still cost something."""

    def __init__(self, usage: Usage = Usage()) -> None:
        self.down, self.threads, self.batched = True, set[int](), False
        self.calls = self.batches = self.answered = 0
        self._usage = usage

    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        self.threads.add(threading.get_ident())
        if self.down:
            replies = [Reply(None, error="no such host", usage=self._usage) for _ in prompts]
        else:
            replies = [Reply(self.reply(prompt), "stop") for prompt in prompts]
            self.answered += len(prompts)
        self.batches += 1
        self.calls += len(prompts)
        return replies

    def reply(self, prompt: str) -> str:
        return knowing(prompt)

    def epoch(self, engine: Coevolution, policy: Families) -> Iterator[int]:
        """Train, and yield after every update once the calls that it started have returned."""
        for number, _ in enumerate(epoch(engine, policy)):
            wait_for_calls(engine)
            yield number


class Guessing(Endpoint):
    def reply(self, prompt: str) -> str:
        return f"<template>idea {self.calls} {hash(prompt)}</template>"


def engine_at(endpoint: Endpoint, offer: Any, **section: Any) -> Coevolution:
    offer("models", "endpoint", lambda reflection, initial: endpoint)
    settings = Settings(stream={**section}, reflection={"backend": "endpoint"})
    return Coevolution.from_settings(settings)


def begun_from(
    engine: Coevolution, endpoint: Endpoint, policy: Families, **section: Any
) -> Coevolution:
    """Build another engine at the same endpoint and resume it from this one's state."""
    settings = Settings(stream={**section}, reflection={"backend": "endpoint"})
    again = Coevolution.from_settings(settings)
    again.load_state_dict(json.loads(json.dumps(engine.state_dict())))
    again.begin(policy)
    return again


def under_way(engine: Coevolution) -> list[dict[str, Any]]:
    """Return the calls that the current state holds; those without an answer are made again."""
    state = json.loads(json.dumps(engine.state_dict()))
    calls: list[dict[str, Any]] = plugin_states(state)["stream"]["reflection"]["under_way"]
    return calls


def wait_for_calls(engine: Coevolution) -> None:
    while not all(call["asked"]["answer"] for call in under_way(engine)):
        time.sleep(0.001)


# An outage


@pytest.mark.parametrize("reply_steps", [1, 3])
def test_an_outage_uses_up_no_calls_of_the_epoch(offer: Any, reply_steps: int) -> None:
    endpoint, policy = Guessing(), Families(count=128)
    engine = engine_at(endpoint, offer, calls_per_hard=0.1, reply_steps=reply_steps)
    engine.begin(policy)
    for number in endpoint.epoch(engine, policy):
        endpoint.down = number < 5
    lost = endpoint.calls - endpoint.answered
    assert lost >= 3
    assert endpoint.answered == 13  # a tenth of the 128 hard questions


@pytest.mark.parametrize("resume", [False, True])
def test_what_the_last_epoch_lost_is_not_given_to_the_next_one(
    offer: Any, resume: bool, room_for_all: None
) -> None:
    endpoint, policy = Guessing(), Families(count=128, families=1000)
    section = {"calls_per_hard": 0.5, "calls_per_step": 8, "reply_steps": 3}
    engine = engine_at(endpoint, offer, **section)
    engine.begin(policy)
    endpoint.down = False
    for number in endpoint.epoch(engine, policy):
        endpoint.down = number >= 12
    endpoint.down, lost = False, endpoint.calls - endpoint.answered
    assert lost == 12
    if resume:
        wait_for_calls(engine)
        engine = begun_from(engine, endpoint, policy, **section)
    list(epoch(engine, policy))
    assert endpoint.calls == 64 + 64  # half of the 128 hard questions, in each


def test_questions_are_not_given_up_for_an_outage(offer: Any, room_for_all: None) -> None:
    endpoint, policy = Guessing(), Families(count=512, families=1000)
    order = policy.question_ids()
    random.Random(0).shuffle(order)
    policy.known = set(order[1:])  # of the epoch below
    engine = engine_at(endpoint, offer, calls_per_hard="unlimited")
    engine.begin(policy)
    for _ in endpoint.epoch(engine, policy):
        endpoint.down = endpoint.batches < 5
    assert endpoint.calls == 5 + 4  # about the one hard question


def test_an_endpoint_that_fails_now_and_then_is_asked_on(offer: Any) -> None:
    class Shaky(Guessing):
        def complete(self, prompts: Sequence[str]) -> list[Reply]:
            self.down = self.batches % 2 == 1
            return super().complete(prompts)

    endpoint, policy = Shaky(), Families(count=512, families=1000)
    engine = engine_at(endpoint, offer)
    engine.begin(policy)
    steps = list(endpoint.epoch(engine, policy))
    assert endpoint.batches > len(steps) / 2


def test_calls_that_failed_and_were_paid_for_count(offer: Any) -> None:
    endpoint, policy = Endpoint(Usage(100, 0, 0.01)), Families()
    engine = engine_at(endpoint, offer, calls_per_hard=0.1)
    run(engine, policy, 4)
    assert 0 < endpoint.calls <= 4 * 4  # a tenth of 32 hard questions, in each epoch


def test_a_dead_endpoint_is_not_asked_for_ever(offer: Any) -> None:
    endpoint, policy = Endpoint(), Families(count=4096)
    endpoint.batched = True
    engine = engine_at(endpoint, offer)
    engine.begin(policy)
    list(epoch(engine, policy))  # 512 updates
    assert endpoint.batches == 8
    list(epoch(engine, policy))
    assert endpoint.batches == 16


def test_a_question_whose_call_always_fails_is_given_up_among_others_that_work() -> None:
    """For example a question that the provider's content filter refuses."""
    asked: list[str] = []
    refused: list[str] = []

    def filtered(prompt: str) -> str:
        asked.append(prompt)
        if re.search(r"number n3\b", prompt):
            refused.append(prompt)
            raise ValueError("refused")
        return f"<template>useless {hash(prompt)}</template>"

    policy = Families(count=512, families=1000)
    section = {"failures_per_call": 1, "calls_per_hard": "unlimited", "calls_per_step": 9}
    section["library_size"] = 1_000
    engine = engine_with(filtered, stream=section)
    engine.begin(policy)
    list(epoch(engine, policy))
    assert 0 < len(refused) <= 4
    assert len(asked) > 9 * 60  # the most in 64 updates, except for the first ones


def test_the_next_try_is_later_every_time() -> None:
    outage, asked = Outage(), []
    for step in range(1_000):
        if not outage.lasts(step):
            asked.append(step)
            outage.lost(step, step)
    assert asked == [0, 1, 3, 7, 15, 31, 63, 127]
    outage.end()
    assert not outage.lasts(1_000)
    outage.lost(1_000, 1_000)
    again = Outage()
    again.load(json.loads(json.dumps(outage.to_json())))
    assert again.lasts(1_000)
    assert not again.lasts(1_001)


@pytest.mark.parametrize("reply_steps", [1, 2, 4, 8, 40])
def test_batches_that_were_under_way_make_one_outage_no_longer(reply_steps: int) -> None:
    """Replies arrive late, so an outage is noticed late."""
    outage, asked = Outage(), []
    for step in range(2_000):
        if step - reply_steps in asked:
            outage.lost(step - reply_steps, step)
        if not outage.lasts(step):
            asked.append(step)
    assert asked[:reply_steps] == list(range(reply_steps))  # before anything is known
    tries = asked[reply_steps:]
    assert len(tries) == 7 * reply_steps if reply_steps == 1 else len(tries) >= 7
    assert tries[-1] >= 127


@pytest.mark.parametrize("reply_steps", [1, 4, 8])
def test_after_an_outage_of_a_few_updates_it_asks_again(offer: Any, reply_steps: int) -> None:
    endpoint, policy = Guessing(), Families(count=512)
    engine = engine_at(endpoint, offer, reply_steps=reply_steps)
    engine.begin(policy)
    for number in endpoint.epoch(engine, policy):
        endpoint.down = number < 9
    assert endpoint.answered > 20


def test_a_resumed_run_waits_for_the_endpoint_as_the_whole_one(offer: Any) -> None:
    endpoint, policy = Endpoint(), Families(count=256)
    engine = engine_at(endpoint, offer)
    engine.begin(policy)
    for number in endpoint.epoch(engine, policy):
        if number == 12:
            break
    again = begun_from(engine, endpoint, policy)
    assert plugin_states(again.state_dict()) == plugin_states(engine.state_dict())


# The policy as its own teacher


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    endpoint = Endpoint()
    endpoint.down = False
    monkeypatch.setattr(models, "LocalModel", lambda path, settings: endpoint)
    return endpoint


@pytest.mark.parametrize("reflection", [{"model": "self"}, {"backend": "self", "model": "mine"}])
def test_the_policy_itself_is_asked_between_two_updates(
    local: Endpoint, reflection: dict[str, Any]
) -> None:
    """In the background the policy would generate during training."""
    settings = Settings(stream={"reply_steps": 3}, reflection=reflection)
    engine, policy = Coevolution.from_settings(settings, initial_policy="a folder"), Families()
    engine.begin(policy)
    next(epoch(engine, policy))
    assert local.calls > 0
    state = json.loads(json.dumps(engine.state_dict()))
    section = plugin_states(state)["stream"]
    under_way = section["reflection"]["under_way"]
    assert under_way
    assert all(calls["asked"]["answer"] for calls in under_way)
    under_way[0]["asked"]["answer"] = None  # as of a proposer that did not answer
    body = {name: value for name, value in state.items() if name not in ("checksum", "schema")}
    body["plugins"]["stream"] = json.dumps(section)
    again = Coevolution.from_settings(settings, initial_policy="a folder")
    again.load_state_dict(seal(body))
    before = local.calls
    again.begin(policy)
    assert local.calls > before
    list(epoch(again, policy))
    assert local.threads == {threading.get_ident()}
