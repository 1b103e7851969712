"""Check that a reward function can tell a search's rollouts from training's, in the real trainer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from helpers.trl_runs import EPOCHS, settings
from helpers.trl_world import score
from prompt_coevo.adapters.trl import attach
from prompt_coevo.adapters.trl.search_rewards import told_of_search

Told = list[tuple[int, Any]]
Kind = Callable[[Told], Any]


def by_name(told: Told) -> Any:
    def reward(
        completions: Any, answer: Any, trainer_state: Any, coevo_search: bool = False, **_: Any
    ) -> list[float]:
        told.append((trainer_state.global_step, coevo_search))
        return score(completions, answer)

    return reward


def by_keywords(told: Told) -> Any:
    def reward(completions: Any, answer: Any, **kwargs: Any) -> list[float]:
        told.append((kwargs["trainer_state"].global_step, kwargs.get("coevo_search", False)))
        return score(completions, answer)

    return reward


def awaited(told: Told) -> Any:
    async def reward(
        completions: Any, answer: Any, trainer_state: Any, *, coevo_search: bool = False, **_: Any
    ) -> list[float]:
        told.append((trainer_state.global_step, coevo_search))
        return score(completions, answer)

    return reward


class Awaited:
    """A reward object with an async `__call__`, which TRL checks for."""

    __name__ = "awaited_object"

    def __init__(self, told: Told) -> None:
        self._told = told

    async def __call__(self, completions: Any, answer: Any, **kwargs: Any) -> list[float]:
        self._told.append((kwargs["trainer_state"].global_step, kwargs.get("coevo_search", False)))
        return score(completions, answer)


def deaf(told: Told) -> Any:
    """Accept only what TRL passes."""

    def reward(
        prompts: Any,
        completions: Any,
        completion_ids: Any,
        id: Any,
        answer: Any,
        trainer_state: Any,
        log_extra: Any = None,
        log_metric: Any = None,
    ) -> list[float]:
        told.append((trainer_state.global_step, "not told"))
        return score(completions, answer)

    return reward


@pytest.mark.parametrize("kind", [by_name, by_keywords, awaited, Awaited, deaf])
def test_who_accepts_it_is_told_of_a_search(make_trainer: Any, kind: Kind) -> None:
    told: Told = []
    trainer = make_trainer(**{**EPOCHS, "num_train_epochs": 2, "reward_funcs": kind(told)})
    functions = list(trainer.reward_funcs)
    attach(trainer, settings())
    trainer.train()
    assert trainer.reward_funcs == functions
    searched = [entry["coevo/search_rollouts"] for entry in trainer.state.log_history[-2:-1]]
    assert searched[0] > 0
    if kind is deaf:
        assert {one for _, one in told} == {"not told"}
        return
    assert [step for step, search in told if not search] == [*range(8)]
    assert {step for step, search in told if search} == {4}  # the search after the first epoch


def test_training_alone_tells_nothing(make_trainer: Any) -> None:
    told: Told = []
    trainer = make_trainer(**{**EPOCHS, "reward_funcs": by_name(told)})
    attach(trainer, settings(stream={"tau": 2.0}))
    trainer.train()
    assert told
    assert not any(search for _, search in told)


def test_what_has_no_keyword_or_no_signature_stays_itself() -> None:
    def positional(coevo_search: Any, /) -> Any: ...

    def plain(completions: Any) -> Any: ...

    class Unreadable:
        @property
        def __signature__(self) -> Any:
            raise ValueError

        def __call__(self, **_: Any) -> Any: ...

    import torch

    those: Sequence[Any] = [positional, plain, Unreadable(), torch.nn.Linear(1, 1)]
    assert told_of_search(those) == [*those]
    (partial,) = told_of_search([functools.partial(lambda a, **kwargs: (a, kwargs), 1)])
    assert partial() == (1, {"coevo_search": True})  # type: ignore[operator]
