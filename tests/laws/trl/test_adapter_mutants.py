"""Check that a faulty adapter breaks the law that `docs/testing.md` names for the fault."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.own_adapter_run import OwnAdapterUnderTest
from laws.adapter_mutants import FAULTS
from own_adapter import OwnAdapter
from prompt_coevo.errors import HostError, StateError
from prompt_coevo.testing.adapter import LAWS, Laboratory

PAGE = (Path(__file__).parents[3] / "docs" / "testing.md").read_text("utf-8")
FAULT_ROW = re.compile(r"^\| (\w[^|]*) \| \*([^*|]*)\* \|$", re.MULTILINE)
CAUGHT_BY = dict(FAULT_ROW.findall(PAGE))


def test_the_page_lists_every_fault_and_every_law() -> None:
    assert list(CAUGHT_BY) == [fault.sentence for fault in FAULTS.values()]
    assert set(CAUGHT_BY.values()) <= set(LAWS)
    for law in LAWS.values():
        assert f"- **{law.name}**: {law.sentence}\n" in PAGE


@pytest.mark.parametrize("name", FAULTS)
def test_an_adapter_with_a_fault_breaks_the_law(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    adapter = OwnAdapterUnderTest(fault.plant(OwnAdapter))
    law = LAWS[CAUGHT_BY[fault.sentence]]
    with pytest.raises(Exception) as caught:
        law.check(Laboratory(adapter, tmp_path))
    raised_by = Path(caught.traceback[-1].path).parts
    judged = isinstance(caught.value, AssertionError) and "testing" in raised_by
    assert judged or isinstance(caught.value, HostError | StateError), caught.value
