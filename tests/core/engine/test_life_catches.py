"""Check that randomly drawn lives find each of these known faults within a few draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from helpers.engine_life import EngineLife
from prompt_coevo.algorithms.hard_questions.hard_set import HardSet
from prompt_coevo.algorithms.inspo.population import Population
from prompt_coevo.reflection.ledger import Ledger
from prompt_coevo.reflection.spending import NOTHING

# No shrinking: it is enough that a life breaks.
LIVES: Final = settings(
    max_examples=50,
    stateful_step_count=20,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
    print_blob=False,
)
Patch = Callable[..., None]


def calls_are_not_written(patch: Patch) -> None:
    _never_write("asked", patch)


def replies_are_not_written(patch: Patch) -> None:
    _never_write("answered", patch)


def _never_write(lost: str, patch: Patch) -> None:
    write = Ledger._write

    def forgetful(self: Ledger, event: str, **fields: Any) -> None:
        if event != lost:
            write(self, event, **fields)

    patch(Ledger, "_write", forgetful)


def budgets_begin_anew(patch: Patch) -> None:
    take_up = Ledger.open

    def empty(self: Ledger, *args: Any, **options: Any) -> None:
        take_up(self, *args, **options)
        self._account.settled = dict(NOTHING)
        self._account.open.clear()

    patch(Ledger, "open", empty)


def hard_questions_are_not_loaded(patch: Patch) -> None:
    patch(HardSet, "load", lambda self, ids: None)


def the_population_is_not_loaded(patch: Patch) -> None:
    patch(Population, "load", lambda self, *args: None)


FAULTS: Final = [
    calls_are_not_written,
    replies_are_not_written,
    budgets_begin_anew,
    hard_questions_are_not_loaded,
    the_population_is_not_loaded,
]


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.__name__ for fault in FAULTS])
def test_a_fault_breaks_a_life(
    fault: Callable[[Patch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch.setattr)
    with pytest.raises(Exception):  # noqa: B017 (whichever it is, it is no failure to break)
        run_state_machine_as_test(EngineLife, settings=LIVES)
