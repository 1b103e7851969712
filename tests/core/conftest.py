"""Fixtures for a rule-based policy and for an engine without a trainer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from helpers.keyed_policy import KeyedPolicy, engine_of, questions
from prompt_coevo import Coevolution


@pytest.fixture
def policy() -> KeyedPolicy:
    return KeyedPolicy(questions(40))


@pytest.fixture
def keyed_policy() -> Callable[..., KeyedPolicy]:
    return lambda count, **changes: KeyedPolicy(questions(count), **changes)


@pytest.fixture
def make_engine() -> Callable[..., Coevolution]:
    return engine_of
