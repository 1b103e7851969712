"""Fixtures for the tests in every folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from helpers.whole_parses import parse_in_one_piece

if find_spec("prompt_coevo") is None or find_spec("prompt_coevo.retrieval") is None:
    raise pytest.UsageError(
        "the tests need prompt_coevo installed, with adapters/ and retrieval/ inside it; run: "
        "pip install --no-deps . (CONTRIBUTING.md says what else an environment needs)"
    )

from prompt_coevo import registry

# An example's duration depends on the machine and its load.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

if sys.version_info < (3, 12):
    parse_in_one_piece()


LONG = (
    "tests/demo/test_demo.py",
    "tests/trl/test_search.py",
    "tests/demo/test_notebook.py",
    "tests/trl/test_ranks.py",
    "tests/laws/verl/",
    "tests/laws/openrlhf/",
    "tests/verl/test_search.py",
    "tests/openrlhf/test_search.py",
    "tests/openrlhf/test_resume.py",
)


SLOW = (
    "tests/core/algorithms/inspo/test_inspo.py::test_a_run_killed_after_any_step_decides_as_the_uninterrupted_one",
    "tests/core/algorithms/p2o/test_search.py::test_no_reply_and_no_reward_breaks_the_accounts",
    "tests/core/algorithms/stream/test_calls.py::test_a_dead_endpoint_is_not_asked_for_ever",
    "tests/core/algorithms/stream/test_calls.py::test_after_an_outage_of_a_few_updates_it_asks_again",
    "tests/core/algorithms/stream/test_calls.py::test_an_endpoint_that_fails_now_and_then_is_asked_on",
    "tests/core/algorithms/stream/test_comparison.py::test_large_groups_count_no_more_than_small_ones",
    "tests/core/algorithms/stream/test_kinds.py::test_a_sentence_that_is_all_that_questions_of_a_kind_share_keeps_its_weight",
    "tests/core/benchmarks/test_intervals.py::test_the_interval_holds_the_truth_about_as_often_as_it_says",
    "tests/core/benchmarks/test_page.py::test_a_pages_tables_are_those_of_the_runs[docs/results-tables.md]",
    "tests/core/benchmarks/test_page.py::test_a_pages_tables_are_those_of_the_runs[docs/results.md]",
    "tests/core/benchmarks/test_page.py::test_what_the_results_say_of_other_tables",
    "tests/core/benchmarks/test_tabular.py",
    "tests/core/cli/test_check.py::test_the_page_that_the_documentation_shows",
    "tests/core/documents/test_blocks.py::test_python_about_a_method_runs_and_obeys_the_laws",
    "tests/core/documents/test_mistakes.py::test_reflection",
    "tests/core/engine/test_disk_faults.py",
    "tests/core/engine/test_life.py",
    "tests/core/engine/test_life_catches.py",
    "tests/core/preflight/test_preflight.py::test_what_a_first_call_imports_is_waited_for_at_exit",
    "tests/core/test_record_runs.py",
    "tests/core/test_threads.py::test_an_interpreter_exits_while_litellm_waits_for_a_server",
    "tests/demo/test_demo.py",
    "tests/demo/test_notebook.py",
    "tests/demo/test_smollm2.py",
    "tests/laws/core/test_mutants.py",
    "tests/laws/openrlhf/",
    "tests/laws/trl/test_adapter_mutants.py",
    "tests/laws/verl/",
    "tests/openrlhf/test_agents.py",
    "tests/openrlhf/test_resume.py",
    "tests/openrlhf/test_scripts.py",
    "tests/openrlhf/test_search.py",
    "tests/openrlhf/test_standins.py",
    "tests/openrlhf/test_stream.py",
    "tests/retrieval/agent/test_search_world.py",
    "tests/retrieval/dense/test_dense.py::test_a_killed_build_goes_on",
    "tests/retrieval/dense/test_dense_cli.py",
    "tests/retrieval/dense/test_estimate.py",
    "tests/retrieval/index/test_build.py::test_a_build_that_is_killed_goes_on",
    "tests/retrieval/laws/test_retrievers.py::TestRemoteWithoutCache",
    "tests/retrieval/server/test_faults.py",
    "tests/retrieval/test_backends.py",
    "tests/trl/test_libraries.py",
    "tests/trl/test_lost_ranks.py",
    "tests/trl/test_scripts.py",
    "tests/verl/test_asynchronous.py",
    "tests/verl/test_liveness.py",
    "tests/verl/test_p2o.py",
    "tests/verl/test_scripts.py",
    "tests/verl/test_search.py",
    "tests/verl/test_standins.py",
    "tests/verl/test_stream.py",
    "tests/verl/test_tools.py",
)
"""`python dev.py test --all` runs these. Of the runs that start Ray, one of each trainer is left, with both
methods: tests/verl/test_many.py and tests/openrlhf/test_both.py."""


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.nodeid.startswith(SLOW):
        item.add_marker(pytest.mark.slow)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start files that take minutes first, so that no process works alone at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("PROMPT_COEVO_", "COEVO_TEST_")):
            monkeypatch.delenv(name)


@pytest.fixture
def offer() -> Iterator[Callable[[registry.Kind, str, Any], None]]:
    """Register a component for the length of a test."""
    offered: list[tuple[registry.Kind, str]] = []

    def register(kind: registry.Kind, name: str, component: Any) -> None:
        registry.register(kind, name, component)
        offered.append((kind, name))

    yield register
    for kind, name in offered:
        registry.unregister(kind, name)
