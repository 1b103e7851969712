from __future__ import annotations

import pickle

import pytest

from prompt_coevo.adapters.openrlhf.placed_text import PlacedPrompt, on_the_question
from prompt_coevo.errors import HostError


def placed() -> PlacedPrompt:
    return PlacedPrompt.of("note : 1 ?", "1 ?")


def decode(text: str) -> str:
    """Drop blanks."""
    return text.replace(" ", "")


def test_a_reward_sees_the_question() -> None:
    assert on_the_question("note:1?one", placed(), decode, "") == ("1?one", "1 ?")


def test_it_does_so_in_another_process() -> None:
    sent: PlacedPrompt = pickle.loads(pickle.dumps(placed()))
    assert sent == "note : 1 ?"
    assert on_the_question("note:1?one", sent, decode, "") == ("1?one", "1 ?")


def test_any_other_prompt_is_as_it_was() -> None:
    assert on_the_question("1 ? one", "1 ?", decode, "") == ("1 ? one", "1 ?")


def test_a_prompt_that_was_cut_off() -> None:
    with pytest.raises(HostError, match="as an answer to the question; make room"):
        on_the_question("1?one", placed(), decode, "make room")
