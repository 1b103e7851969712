"""Check that a faulty adapter breaks the law that is named for the fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.own_adapter_run import OwnAdapterUnderTest
from laws.adapter_mutants import FAULTS
from own_adapter import OwnAdapter
from prompt_coevo.errors import HostError, StateError
from prompt_coevo.testing.adapter import LAWS, Laboratory


@pytest.mark.parametrize("name", FAULTS)
def test_an_adapter_with_a_fault_breaks_the_law(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    adapter = OwnAdapterUnderTest(fault.plant(OwnAdapter))
    law = LAWS[fault.law]
    with pytest.raises(Exception) as caught:
        law.check(Laboratory(adapter, tmp_path))
    raised_by = Path(caught.traceback[-1].path).parts
    judged = isinstance(caught.value, AssertionError) and "testing" in raised_by
    assert judged or isinstance(caught.value, HostError | StateError), caught.value
