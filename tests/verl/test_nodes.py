"""Check nodes with other prompt_coevo versions: actors of a real Ray, one without it, one with another."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from prompt_coevo.adapters.verl import distill as distill
from prompt_coevo.adapters.verl.distill import Plan
from prompt_coevo.adapters.verl.generation import Dispatcher
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment
from standins.ray_start import patiently


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    # Ray's processes import from here first, and a checkout has no prompt_coevo.adapters.
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("ray"))
        patiently(ray.init, num_cpus=2, include_dashboard=False, object_store_memory=100_000_000)
        yield
        ray.shutdown()


def dispatched(version: str | None) -> None:
    """Dispatch to a worker with this version of the package, or None for none."""

    class Worker:
        def __init__(self, found: str | None) -> None:
            from prompt_coevo.adapters.verl import distill as here

            if found is not None:
                here.__version__ = found  # type: ignore[misc]
                return
            for name in [name for name in sys.modules if name.startswith("prompt_coevo")]:
                del sys.modules[name]
            sys.modules["prompt_coevo"] = None  # type: ignore[assignment]

        def generate_sequences(self, batch: Any) -> None: ...

    worker = ray.remote(Worker).options(num_cpus=0).remote(version)
    manager = SimpleNamespace(
        generate_sequences=lambda batch: ray.get(worker.generate_sequences.remote(batch))
    )
    dispatcher = object.__new__(Dispatcher)
    dispatcher._manager = manager
    dispatcher._dispatch([Plan("single_turn_agent", [Assignment("q1")])])


def test_a_plan_of_another_version_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(Plan("single_turn_agent", [Assignment("q1")]))
    assert pickle.loads(sent).use(0) == Assignment("q1")
    monkeypatch.setattr(distill, "__version__", "0.0.1")
    with pytest.raises(HostError, match=r"has prompt_coevo 0\.0\.1 and the trainer .*on all nodes"):
        pickle.loads(sent)


@pytest.mark.long
@pytest.mark.usefixtures("started")
def test_the_same_version_reads_what_is_sent() -> None:
    dispatched(distill.__version__)


@pytest.mark.long
@pytest.mark.usefixtures("started")
@pytest.mark.parametrize(
    ("version", "part"),
    [("0.0.1", r"has prompt_coevo 0\.0\.1 and the trainer"), (None, "prompt_coevo")],
)
def test_another_or_none_ends_the_run_by_one_sentence(version: str | None, part: str) -> None:
    with pytest.raises(HostError) as raised:
        dispatched(version)
    told = str(raised.value)
    assert told.startswith("an agent loop worker cannot read what +coevo sends (")
    assert told.endswith("; install the same prompt-coevo on all nodes")
    assert "\n" not in told
    raised.match(part)
