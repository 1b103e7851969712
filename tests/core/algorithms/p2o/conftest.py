"""Fixtures for a search with a rule-based policy: a template solves "q3" iff it contains "k3"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from helpers.searches import Recorder, learner
from prompt_coevo import Coevolution
from prompt_coevo.algorithms.p2o.search import Search
from prompt_coevo.candidates.searches import SearchRequest, SearchResult

LEARNER = learner()


@pytest.fixture
def events() -> Recorder:
    return Recorder()


@pytest.fixture
def search(
    make_engine: Callable[..., Coevolution], events: Recorder
) -> Callable[..., SearchResult]:
    def run(
        policy: Any, reply: Callable[[str], str] = LEARNER, hard: int = 20, **p2o: Any
    ) -> SearchResult:
        defaults = {
            "overspend": "never",
            "minibatch_size": 2,
            "dev_size": 6,
            "beam_width": 3,
            "search_budget": 100,
        }
        engine = make_engine(reply, p2o=defaults | p2o, plugins={"events": events})
        ids = tuple(sorted(policy.questions))[:hard]
        request = SearchRequest(0, ids, policy)
        return Search(request, engine.context).run()

    return run
