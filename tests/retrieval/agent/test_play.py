"""Check an episode that drives itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from prompt_coevo.retrieval.agent.rollout import SearchRollout, Turn, play
from prompt_coevo.retrieval.agent.scoring import golds_of_label
from prompt_coevo.retrieval.agent.settings import SearchAgentSettings
from prompt_coevo.retrieval.retriever import Hit

TURNS = ["<search> mayor of Bonn </search>", "<answer> Ada </answer>"]


class Letters:
    """A tokenizer with one id per letter."""

    all_special_tokens: tuple[str, ...] = ()

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": list(map(ord, text))}

    def decode(self, ids: list[int], **_: Any) -> str:
        return "".join(map(chr, ids))


class Tool:
    """Finds one passage."""

    def __init__(self) -> None:
        self.queries: list[str] = []

    async def asearch(self, query: str) -> list[Hit]:
        self.queries.append(query)
        return [Hit("7", '"Bonn"\nIts mayor is Ada.', 1.0, 1)]


def test_turns_are_sampled_after_all_that_was_before() -> None:
    settings = SearchAgentSettings(url="http://127.0.0.1:1", turn_tokens=50)
    rollout = SearchRollout([ord("?")], Letters(), settings, room=1000)
    tool: Any = Tool()
    asked: list[str] = []

    async def sample(ids: list[int], most: int) -> Turn:
        assert most == 50
        asked.append("".join(map(chr, ids)))
        text = TURNS[len(asked) - 1]
        return list(map(ord, text)), [-1.0] * len(text)

    asyncio.run(play(rollout, tool, sample))
    assert tool.queries == ["mayor of Bonn"]
    assert asked[0] == "?"
    assert asked[1].startswith(f"?{TURNS[0]}")
    assert "Its mayor is Ada." in asked[1]
    assert rollout.episode.answer == "Ada"
    assert rollout.trajectory.log_probs is not None


@pytest.mark.parametrize(
    ("label", "golds"),
    [
        ("Paris", "Paris"),
        ('["Paris", 7]', ["Paris", "7"]),
        (("Paris", "Lutetia"), ["Paris", "Lutetia"]),
        ('"Paris"', '"Paris"'),
        ("1999", "1999"),
        ("9" * 5000, "9" * 5000),
        ("[" * 3000, "[" * 3000),
    ],
)
def test_the_gold_answers_of_a_label(label: Any, golds: Any) -> None:
    assert golds_of_label(label) == golds
