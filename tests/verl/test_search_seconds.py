"""Check the seconds of a search agent's episode, as VeRL's own agent loops report them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import AutoTokenizer

from prompt_coevo.adapters.verl import search_agent
from prompt_coevo.retrieval.agent.settings import SearchAgentSettings
from worlds.pairs.world import base_policy_path

SLEPT = 0.01


def test_sampling_and_searching_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = AutoTokenizer.from_pretrained(base_policy_path())
    turns = iter([["search"], ["answer"]])
    asked: list[str] = []

    class Rollout:
        over = False
        turn_tokens = 5
        status = "ok"
        trajectory = SimpleNamespace(
            ids=[1], prompt_ids=[1], completion_ids=[2], mask=[1], log_probs=None
        )
        episode = SimpleNamespace(turns=2, searches=1)

        def __init__(self, *_: Any) -> None: ...

        def sampled(self, ids: list[str], _: Any) -> str | None:
            self.over = ids == ["answer"]
            return None if self.over else "a query"

        def observed(self, found: str) -> None:
            asked.append(found)

    async def generate(**_: Any) -> Any:
        await asyncio.sleep(SLEPT)
        return SimpleNamespace(token_ids=next(turns), log_probs=None, extra_fields={})

    async def asearch(query: str) -> str:
        await asyncio.sleep(SLEPT)
        return f"found for {query}"

    async def build(_: Any) -> list[int]:
        return [1]

    monkeypatch.setattr(search_agent, "SearchRollout", Rollout)
    monkeypatch.setattr(search_agent, "tool_of", lambda _: SimpleNamespace(asearch=asearch))
    monkeypatch.setattr(search_agent, "score", lambda *_: 1.0)
    loop = object.__new__(search_agent.SearchAgentLoop)
    loop.ct_build_initial_tokens = build
    loop.rollout_config = SimpleNamespace(response_length=9, name="hfcpu")
    loop.server_manager = SimpleNamespace(generate=generate)
    loop.tokenizer = tokenizer
    loop._settings = SearchAgentSettings(url="http://127.0.0.1:1")
    row = {"raw_prompt": [], "reward_model": {"ground_truth": {"target": ["x"]}}}
    output = asyncio.run(loop.run({}, **row))
    assert asked == ["found for a query"]
    assert output.metrics.generate_sequences >= 2 * SLEPT * 0.9
    assert output.metrics.tool_calls >= SLEPT * 0.9
