"""Check completions that arrive only when they are read."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from dataclasses import replace

import pytest

from prompt_coevo.types import Assignment, LateText, PolicyVersion, Rollout, bring_texts


class Source:
    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, names: Sequence[str]) -> list[str]:
        self.asked.append(list(names))
        return [f"text of {name}" for name in names]


def late(source: Source, name: str) -> Rollout:
    return Rollout.scored(Assignment("q"), LateText(source, name), 1.0, PolicyVersion())


def here(name: str) -> Rollout:
    return Rollout(Assignment("q"), f"text of {name}", 1.0)


def test_it_comes_when_it_is_read_and_once() -> None:
    source = Source()
    rollout = late(source, "a")
    assert (rollout.reward, rollout.fit, source.asked) == (1.0, True, [])
    assert rollout.completion == rollout.completion == "text of a"
    assert source.asked == [["a"]]


def test_it_is_a_rollout_like_any_other() -> None:
    source = Source()
    assert late(source, "a") == here("a")
    assert late(source, "a") != here("b")
    assert hash(late(source, "a")) == hash(here("a"))
    assert repr(late(source, "a")) == repr(here("a"))
    assert replace(late(source, "a"), reward=1.0) == here("a")


@pytest.mark.parametrize(
    "through", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
)
def test_a_copy_takes_the_text_along(through: object) -> None:
    source = Source()
    first = late(source, "a")
    again = through(first)  # type: ignore[operator]
    assert (again, first) == (here("a"), here("a"))
    assert source.asked == [["a"]]


def test_what_goes_to_another_process_is_the_text_itself() -> None:
    source = Source()
    sent = pickle.dumps(late(source, "a"))
    assert source.asked == [["a"]]
    assert pickle.loads(sent).text == "text of a"


def test_many_come_in_one_call_for_each_source() -> None:
    one, other = Source(), Source()
    rollouts = [late(one, "a"), here("b"), late(other, "c"), late(one, "d")]
    bring_texts(rollouts)
    assert (one.asked, other.asked) == ([["a", "d"]], [["c"]])
    assert rollouts == [here(name) for name in "abcd"]
    bring_texts(rollouts)
    assert (len(one.asked), len(other.asked)) == (1, 1)


def test_a_source_that_fails_is_asked_again() -> None:
    source = Source()
    failing = [True]

    def unsteady(names: Sequence[str]) -> list[str]:
        if failing.pop() if failing else False:
            raise ConnectionError("gone")
        return source(names)

    text = LateText(unsteady, "a")
    with pytest.raises(ConnectionError, match="gone"):
        str(text)
    assert str(text) == "text of a"
