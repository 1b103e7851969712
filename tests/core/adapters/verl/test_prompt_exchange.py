"""Check the exchange of prompts. The agents here encode each message as one id: its text's length."""

from __future__ import annotations

import asyncio
from typing import Any

from prompt_coevo.adapters.verl.prompt_exchange import PromptExchange

LONG = [{"role": "user", "content": "123\n\n12345"}]
SHORT = [{"role": "user", "content": "12345"}]


class Agent:
    def __init__(self) -> None:
        self.pictures: list[dict[str, int]] = []

    async def build(self, messages: Any, plus: int = 0, *, found: dict[str, int]) -> list[int]:
        found["pictures"] = len(found) + len(messages)
        self.pictures.append(found)
        return [len(message["content"]) + plus for message in messages]


def test_the_prompt_to_train_on_is_made_in_the_same_way() -> None:
    agent = Agent()
    exchange = PromptExchange(agent, ("build", "none"), LONG, SHORT, filled=["found"])
    found: dict[str, int] = {}
    assert asyncio.run(agent.build(LONG, 1, found=found)) == [11]
    assert exchange.trained_ids([11]) == [6]
    assert found == {"pictures": 1}
    assert agent.pictures[1] is not found


def test_only_the_first_time_counts() -> None:
    agent = Agent()
    exchange = PromptExchange(agent, ["build"], LONG, SHORT, filled=["found"])
    for plus in (1, 2):
        asyncio.run(agent.build(LONG, plus, found={}))
    assert len(agent.pictures) == 3
    assert (exchange.trained_ids([11]), exchange.trained_ids([12])) == ([6], None)


def test_a_prompt_that_is_trained_on_as_it_is_is_tokenized_once() -> None:
    agent = Agent()
    exchange = PromptExchange(agent, ["build"], LONG, LONG)
    asyncio.run(agent.build(LONG, found={}))
    assert exchange.trained_ids([10, 5]) == [10, 5]
    assert len(agent.pictures) == 1


def test_ids_of_another_prompt_are_not_exchanged() -> None:
    agent = Agent()
    exchange = PromptExchange(agent, ["build"], LONG, SHORT)
    assert exchange.trained_ids([10]) is None
    asyncio.run(agent.build([*LONG, *SHORT], found={}))
    assert exchange.trained_ids([10, 5]) is None


def test_what_comes_behind_the_prompt_stays() -> None:
    """An agent with several prompts builds later ones on the first, and what it adds is kept."""
    agent = Agent()
    exchange = PromptExchange(agent, ["build"], LONG, SHORT)
    asyncio.run(agent.build(LONG, found={}))
    assert exchange.trained_ids([10, 3, 4]) == [5, 3, 4]
    for others in ([3, 10], [], [9, 10]):
        assert exchange.trained_ids(others) is None


def test_other_agents_keep_their_methods() -> None:
    other = Agent()
    PromptExchange(Agent(), ["build"], LONG, SHORT)
    asyncio.run(other.build(LONG, found={}))
    assert len(other.pictures) == 1
